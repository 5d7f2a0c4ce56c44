// Documents: the receipt of one, with everything that it met, and what is stored of it at each node.
import { Chakra, React, html, useEffect, useState } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { ago, bytes, count, duration, plural, seconds, time } from "../lib/format.js";
import { PipelinePage } from "../lib/choose.js";
import { Answer, Boundary, Failure, Figure, Figures, Grid, Mono, Section, Source, Tag, TextLink, pageLink } from "../lib/parts.js";

const { Alert, Box, Button, Checkbox, Field, Flex, HStack, Input, Text } = Chakra;

export function DocumentsPage() {
  return html`
    <${PipelinePage} route="pipeline-documents" title="Documents">
      ${(pipeline, values, set) => html`
        <div>
          <${Search} docId=${values.doc ?? ""} onSearch=${(doc) => set({ pipeline: pipeline.id, doc, keys: "" })} />
          ${values.doc
            ? html`<${Receipt} key=${`${pipeline.id}/${values.doc}`} pipeline=${pipeline} docId=${values.doc} values=${values} set=${set} />`
            : html`<${Newest} pipeline=${pipeline} />`}
        </div>
      `}
    <//>
  `;
}

/** The documents that came in last, each with a link to its receipt. */
function Newest({ pipeline }) {
  const query = useQuery(path`pipelines/${pipeline.id}/documents`, { every: 10 });
  return html`
    <${Section} title="Newest documents">
      <${Answer} query=${query} empty=${{
        when: (data) => !data.documents.length,
        title: "No document has come in yet",
        hint: "Run a datasource's connector, upload one, or hand one to the engine.",
      }}>
        ${(data) => html`<${Grid} label="Newest documents" rows=${data.documents} rowKey=${(each) => `${each.datasource}/${each.doc_id}`} columns=${[
          { title: "Document", wrap: "narrow", cell: (each) => html`<${TextLink} to=${pageLink("pipeline-documents", { pipeline: pipeline.id, doc: each.doc_id })}><${Mono}>${each.doc_id}<//><//>` },
          { title: "Datasource", cell: (each) => each.datasource },
          { title: "Arrived", cell: (each) => html`<span title=${time(each.arrived_at)}>${ago(each.arrived_at)}</span>` },
        ]} />`}
      <//>
      <${Text} fontSize="xs" color="fg.muted" mt="2">A receipt shows every record, range, node, object and dead letter that the document met.<//>
    <//>
  `;
}

function Search({ docId, onSearch }) {
  const [text, setText] = useState(docId);
  useEffect(() => setText(docId), [docId]);
  return html`
    <${Box} as="form" role="search" mb="5" onSubmit=${(event) => { event.preventDefault(); onSearch(text.trim()); }}>
      <${Field.Root}>
        <${Field.Label} fontSize="xs" color="fg.muted">Document id<//>
        <${HStack} width="100%" maxWidth="640px">
          <${Input} size="sm" fontFamily="mono" value=${text} onChange=${(event) => setText(event.target.value)} />
          <${Button} type="submit" size="sm" disabled=${!text.trim()}>Show<//>
        <//>
      <//>
    <//>
  `;
}

function Receipt({ pipeline, docId, values, set }) {
  const query = useQuery(path`pipelines/${pipeline.id}/documents/${docId}`);
  return html`
    <${Answer} query=${query} rows=${6} empty=${{
      when: (data) => !data.records.length && !data.catalogue.length && !data.dead_letters.length,
      title: `Nothing is known of ${docId}`,
      hint: "No topic of this pipeline has a record of it any more, and it was not uploaded to one of its datasources.",
    }}>
      ${(data) => html`
        <div>
          ${data.note ? html`<${Alert.Root} status="info" mb="3"><${Alert.Indicator} /><${Alert.Description}>${data.note}<//><//>` : null}
          <${Summary} data=${data} />
          <${Way} data=${data} pipeline=${pipeline} />
          <${Stored} pipeline=${pipeline} docId=${docId} objects=${data.objects} values=${values} set=${set} />
          <${Letters} letters=${data.dead_letters} pipeline=${pipeline} docId=${docId} />
          <${Uploads} catalogue=${data.catalogue} />
          <${Hops} hops=${data.hops} />
        </div>
      `}
    <//>
  `;
}

function Summary({ data }) {
  const times = data.records.map((each) => seconds(each.at)).filter(Number.isFinite);
  const drained = data.records.filter((each) => each.ranges.length).length;
  const last = data.records.at(-1);
  const isDead = data.dead_letters.some((each) => each.state === "open" || each.state === "released");
  return html`
    <${Figures}>
      <${Figure} label="Records" value=${count(data.records.length)} />
      <${Figure} label="Drained" value=${count(drained)} />
      <${Figure} label="Nodes processed it" value=${count(data.hops.length)} />
      <${Figure} label="First to last record" value=${times.length > 1 ? duration(Math.max(...times) - Math.min(...times)) : "–"} />
      <${Figure} label="Dead letters" value=${count(data.dead_letters.length)} tone=${data.dead_letters.length ? "red.fg" : undefined} />
      <${Figure} label="Is now" value=${isDead ? "dead letter" : last ? last.node || last.kind : "–"} />
    <//>
  `;
}

/** Records in the order of their times, as steps of a line. */
function Way({ data, pipeline }) {
  const records = [...data.records].sort((one, other) => seconds(one.at) - seconds(other.at) || one.topic.localeCompare(other.topic));
  return html`
    <${Section} title="Its way">
      <${Box} as="ol" listStyleType="none" data-testid="way">
        ${records.map(
          (each, index) => html`
            <${Flex} as="li" key=${`${each.topic}/${each.partition}/${each.offset}`} gap="3">
              <${Flex} direction="column" align="center" aria-hidden="true">
                <${Box} boxSize="12px" borderRadius="full" mt="1.5" flexShrink="0" bg=${each.kind === "dead letters" ? "red.solid" : each.kind === "end" ? "green.solid" : "blue.solid"} />
                ${index < records.length - 1 ? html`<${Box} width="2px" flex="1" bg="border.emphasized" />` : null}
              <//>
              <${Box} pb="4" minWidth="0" flex="1"><${Step} record=${each} pipeline=${pipeline} /><//>
            <//>
          `,
        )}
      <//>
    <//>
  `;
}

function Step({ record, pipeline }) {
  return html`
    <div>
      <${HStack} gap="2" wrap="wrap">
        <${Text} fontWeight="semibold">${record.node || "end"}<//>
        <${Tag} tone=${record.kind === "dead letters" ? "red" : record.kind === "end" ? "green" : "blue"}>${record.kind}<//>
        ${record.edge ? html`<${Text} fontSize="xs" color="fg.muted">by edge ${record.edge}${record.from_node ? ` from ${record.from_node}` : ""}<//>` : null}
        <${Text} fontSize="xs" color="fg.muted" ml="auto" className="ps-number">${time(record.at)}<//>
      <//>
      <${Mono} color="fg.muted">${record.topic} · partition ${record.partition} · offset ${record.offset}<//>
      ${record.ranges.length
        ? record.ranges.map(
            (range, index) => html`
              <${Text} key=${index} fontSize="xs" mt="1">
                <${Tag}>${range.kind}<//>${" "}in${" "}
                <${TextLink} to=${pageLink("pipeline-ledger", { pipeline: pipeline.id, topic: record.topic })}>
                  range ${count(range.start)}–${count(range.end)}
                <//>
                ${" "}by run <${Mono}>${range.run_id}<//>, version ${range.graph_version ?? range.graph_hash.slice(0, 8)}, token ${count(range.token)}, recorded ${time(range.entered_at)}
                ${range.transactional_id ? html`<${Mono} display="block" color="fg.muted">transaction of ${range.transactional_id}<//>` : null}
              <//>
            `,
          )
        : record.kind === "end" || record.kind === "dead letters"
          ? null
          : html`<${Text} fontSize="xs" mt="1" color="orange.fg">waits: no range of the ledger has it yet<//>`}
    </div>
  `;
}

const MOST_BESIDE = 3;

function Stored({ pipeline, docId, objects, values, set }) {
  if (!objects.length) return null;
  const wanted = (values.keys ?? "").split("|").filter((key) => objects.some((each) => each.key === key));
  const shown = wanted.length ? wanted : [objects[0], objects.at(-1)].filter((each, index, all) => all.indexOf(each) === index).map((each) => each.key);
  const toggle = (key) => {
    const next = shown.includes(key) ? shown.filter((each) => each !== key) : [...shown, key].slice(-MOST_BESIDE);
    set({ keys: next.join("|") }, { replace: true });
  };
  return html`
    <${Section} title="Stored documents, side by side">
      <${HStack} gap="4" wrap="wrap" mb="3" role="group" aria-label="Objects">
        ${objects.map(
          (each) => html`
            <${Checkbox.Root} key=${each.key} size="sm" checked=${shown.includes(each.key)} onCheckedChange=${() => toggle(each.key)} title=${each.key}>
              <${Checkbox.HiddenInput} /><${Checkbox.Control} /><${Checkbox.Label}>${each.node || "as uploaded"}<//>
            <//>
          `,
        )}
      <//>
      <${Flex} gap="3" direction=${{ base: "column", lg: "row" }} align="stretch">
        ${shown.map((key) => html`
          <${Box} key=${key} flex="1" minWidth="0">
            <${Boundary} what="This document"><${StoredOne} pipeline=${pipeline} docId=${docId} object=${objects.find((each) => each.key === key)} /><//>
          <//>`)}
      <//>
    <//>
  `;
}

function StoredOne({ pipeline, docId, object }) {
  const query = useQuery(path`pipelines/${pipeline.id}/documents/${docId}/stored`, { query: { key: object.key } });
  return html`
    <${React.Fragment}>
      <${Text} fontSize="sm" fontWeight="semibold">${object.node ? `after ${object.node}` : "as uploaded"}<//>
      <${Mono} color="fg.muted">${object.key}<//>
      <${Answer} query=${query} rows=${3}>
        ${(data) => html`
          <div>
            <${Text} fontSize="xs" color="fg.muted" mb="1">${bytes(data.size_bytes)}${data.truncated ? ", long texts are cut" : ""}<//>
            <${Source} label=${`Document ${object.node ? `after ${object.node}` : "as uploaded"}`} text=${JSON.stringify(data.document, null, 2)} maxHeight="420px" />
          </div>
        `}
      <//>
    <//>
  `;
}

function Letters({ letters, pipeline, docId }) {
  if (!letters.length) return null;
  return html`
    <${Section} title="Dead letters">
      ${letters.map(
        (each) => html`
          <${Failure} key=${each.id} title=${`${each.error} at ${each.node}`} error=${each} />
        `,
      )}
      <${TextLink} fontSize="sm" to=${pageLink("pipeline-dead-letters", { pipeline: pipeline.id, doc: docId, state: "all" })}>
        ${letters.length === 1 ? "See it" : `See all ${count(letters.length)}`} with the document, to replay or quarantine
      <//>
    <//>
  `;
}

function Uploads({ catalogue }) {
  if (!catalogue.length) return null;
  return html`
    <${Section} title="Uploads">
      <${Grid} label="Uploads" rows=${catalogue} columns=${[
        { title: "Datasource", cell: (each) => each.datasource },
        { title: "Version", number: true, cell: (each) => count(each.version) },
        { title: "Title", wrap: true, cell: (each) => each.title },
        { title: "Type", cell: (each) => each.mime_type },
        { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
        { title: "Uploaded", cell: (each) => time(each.created_at) },
        { title: "Published", cell: (each) => time(each.published_at) },
      ]} />
    <//>
  `;
}

function Hops({ hops }) {
  if (!hops.length) return null;
  return html`
    <${Section} title="Processing">
      <${Grid} label="Processing" rows=${hops} columns=${[
        { title: "Hop", number: true, cell: (each) => each.hop },
        { title: "Node", cell: (each) => each.node },
        { title: "Result", cell: (each) => html`<${Tag} tone=${each.error ? "red" : "green"}>${each.status.toLowerCase()}<//>` },
        { title: "Version", number: true, cell: (each) => each.graph_version ?? each.graph_hash.slice(0, 8) },
        { title: "Started", cell: (each) => time(each.started_at) },
        { title: "Took", number: true, cell: (each) => (each.started_at && each.ended_at ? duration(seconds(each.ended_at) - seconds(each.started_at)) : "–") },
        { title: "Module", wrap: "narrow", cell: (each) => html`<${Mono}>${each.module}<//>` },
      ]} />
    <//>
  `;
}
