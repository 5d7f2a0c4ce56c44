// What a changed graph would make of documents that were drained before, next to what the graph in use makes of them.
import { Chakra, Router, html, useState } from "../lib/react.js";
import { call, path, useAction } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Failure, Figure, Figures, Grid, Mono, Tag, pageLink } from "../lib/parts.js";

const { Alert, Box, Button, HStack, NativeSelect, SimpleGrid, Stack, Text } = Chakra;

const COUNTS = [20, 100, 300, 1000];
const TONES = { route: "blue", failure: "red", document: "orange" };
const NAMES = { route: "other route", failure: "other failure", document: "other document" };

/** @param text the changed graph. @param disabled while it cannot be compared, with the reason in `hint`. */
export function Compare({ id, text, disabled, hint }) {
  const [documents, setDocuments] = useState(100);
  const compare = useAction(async () => ({
    text,
    ...(await call("POST", path`pipelines/${id}/compare`, { text, query: { documents } })),
  }));
  const isOld = compare.done && compare.done.text !== text;
  return html`
    <${Box} as="section" aria-label="Compare with what was drained" borderWidth="1px" borderRadius="md" p="3" mt="2">
      <${HStack} gap="2" wrap="wrap" justify="space-between">
        <${Box} flex="1 1 260px">
          <${Text} fontWeight="semibold" fontSize="sm">Compare with what was drained<//>
          <${Text} fontSize="xs" color="fg.muted">
            Runs this text and the graph in use on the same records. Modules are called, except those of ends and in remote engines.
            Nothing is published, stored or committed.
          <//>
        <//>
        <${HStack} gap="2">
          <${NativeSelect.Root} size="sm" width="150px">
            <${NativeSelect.Field} aria-label="Records to compare" value=${documents} onChange=${(event) => setDocuments(Number(event.target.value))}>
              ${COUNTS.map((count) => html`<option key=${count} value=${count}>last ${count} records</option>`)}
            <//>
            <${NativeSelect.Indicator} />
          <//>
          <${Button} size="sm" variant="outline" loading=${compare.busy} loadingText="Comparing" disabled=${disabled} title=${disabled ? hint : undefined}
            onClick=${() => compare.run()}>Compare<//>
        <//>
      <//>
      <${Box} aria-live="polite">
        ${compare.error ? html`<${Box} mt="3"><${Failure} title="The graphs could not be compared" error=${compare.error} /><//>` : null}
        ${compare.done ? html`<${Result} id=${id} found=${compare.done} isOld=${isOld} />` : null}
      <//>
    <//>
  `;
}

function Result({ id, found, isOld }) {
  const isSame = found.different === 0;
  return html`
    <${Stack} gap="3" mt="3" data-testid="comparison" opacity=${isOld ? 0.6 : undefined}>
      ${isOld ? html`<${Text} fontSize="xs" color="orange.fg">The text has changed since this was compared.<//>` : null}
      <${Alert.Root} status=${isSame ? "success" : "warning"}>
        <${Alert.Indicator} />
        <${Alert.Title}>
          ${isSame
            ? `${plural(found.records, "record")} compared: all come out the same`
            : `${found.different} of ${plural(found.records, "record")} come out differently`}
        <//>
      <//>
      <${Figures}>
        ${Object.keys(NAMES).map((kind) => html`<${Figure} key=${kind} label=${NAMES[kind]} value=${found.kinds[kind] ?? 0} />`)}
        <${Figure} label="failed documents" value=${`${found.failed_before} → ${found.failed_after}`} tone=${found.failed_after > found.failed_before ? "red.fg" : undefined} />
      <//>
      ${found.conditions.map((each) => html`
        <${Text} key=${each.edge} fontSize="sm" data-condition=${each.edge}>
          Condition of <${Mono}>${each.edge}<//>: ${plural(each.reached, "document")} came to it, true for ${each.true_before} before and
          ${" "}${each.true_after} after.
        <//>`)}
      ${found.edges.length
        ? html`<${Grid} label="Documents by edge" rows=${found.edges} rowKey=${(row) => row.edge} columns=${[
            { title: "Edge", cell: (row) => html`<${Mono}>${row.edge}<//>` },
            { title: "Before", number: true, cell: (row) => row.before ?? "not there" },
            { title: "After", number: true, cell: (row) => row.after ?? "not there" },
          ]} />`
        : null}
      ${found.documents.map((each) => html`<${Document} key=${`${each.topic}/${each.partition}/${each.offset}`} id=${id} each=${each} />`)}
      ${found.notes.map((note) => html`<${Text} key=${note} fontSize="xs" color="fg.muted">${note}<//>`)}
    <//>
  `;
}

function Document({ id, each }) {
  const { kinds, before, after, fields, more_fields: more } = each.difference;
  return html`
    <${Box} as="article" aria-label=${`Document ${each.doc_id}`} borderWidth="1px" borderRadius="md" p="3">
      <${HStack} gap="2" wrap="wrap" mb="2">
        <${Router.Link} to=${pageLink("pipeline-documents", { pipeline: id, doc: each.doc_id })}>
          <${Text} as="span" fontWeight="semibold" fontSize="sm" textDecoration="underline">${each.doc_id || "(no id)"}<//>
        <//>
        <${Mono} color="fg.muted">${`${each.topic} · partition ${each.partition} · offset ${each.offset}`}<//>
        ${kinds.map((kind) => html`<${Tag} key=${kind} tone=${TONES[kind]}>${NAMES[kind]}<//>`)}
      <//>
      <${SimpleGrid} columns=${{ base: 1, md: 2 }} gap="3">
        <${Leaves} title="Before" leaves=${before} />
        <${Leaves} title="After" leaves=${after} />
      <//>
      ${fields.length
        ? html`<${Box} mt="3"><${Grid} label="Fields that differ" rows=${fields} columns=${[
            { title: "Field", cell: (row) => html`<${Mono}>${row.field}<//>` },
            { title: "Before", wrap: true, cell: (row) => html`<${Mono} className="ps-removed">${shown(row.before)}<//>` },
            { title: "After", wrap: true, cell: (row) => html`<${Mono} className="ps-added">${shown(row.after)}<//>` },
          ]} /><//>`
        : null}
      ${more ? html`<${Text} mt="1" fontSize="xs" color="fg.muted">More fields differ.<//>` : null}
    <//>
  `;
}

function Leaves({ title, leaves }) {
  return html`
    <${Box}>
      <${Text} fontSize="xs" color="fg.muted">${title}<//>
      <${Stack} as="ul" gap="1" listStyleType="none">
        ${leaves.map((leaf, index) => html`
          <${Box} as="li" key=${index} fontSize="sm">
            <${Mono}>${[...leaf.edges, leaf.node ? `${leaf.ending}: ${leaf.node}` : leaf.ending].join(" → ")}<//>
            ${leaf.error ? html`<${Text} fontSize="xs" color="red.fg">${leaf.error}<//>` : null}
          <//>
        `)}
        ${leaves.length ? null : html`<${Text} fontSize="sm" color="fg.muted">nothing<//>`}
      <//>
    <//>
  `;
}

const shown = (value) => (value === null ? "(absent)" : typeof value === "string" ? value : JSON.stringify(value));
