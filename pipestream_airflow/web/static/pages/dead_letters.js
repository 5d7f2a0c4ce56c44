// Dead letters: grouped by reason, browsed, with document and error side by side; replayed or quarantined.
import { Chakra, React, Router, html, useEffect, useState } from "../lib/react.js";
import { call, path, useAction, useQuery } from "../lib/api.js";
import { ago, bytes, count, plural, time } from "../lib/format.js";
import { PipelinePage } from "../lib/choose.js";
import { Confirm } from "../lib/confirm.js";
import { Answer, Boundary, Facts, Failure, Grid, Mono, Section, Source, Tag, pageLink } from "../lib/parts.js";

const { Alert, Box, Button, CloseButton, Flex, Heading, HStack, Input, NativeSelect, Stack, Text } = Chakra;

const STATES = ["waiting", "quarantined", "replayed", "purged", "all"];

export function DeadLettersPage() {
  return html`
    <${PipelinePage} route="pipeline-dead-letters" title="Dead letters">
      ${(pipeline, values, set) => html`<${Letters} key=${pipeline.id} pipeline=${pipeline} values=${values} set=${set} />`}
    <//>
  `;
}

const PAGE = 25;

function Letters({ pipeline, values, set }) {
  const state = STATES.includes(values.state) ? values.state : "waiting";
  const filter = { state, node: values.node, error: values.error, doc_id: values.doc };
  const offset = Number(values.offset) || 0;
  const groups = useQuery(path`pipelines/${pipeline.id}/dead-letters/groups`, { query: filter, every: 10 });
  const letters = useQuery(path`pipelines/${pipeline.id}/dead-letters`, {
    query: { ...filter, fingerprint: values.group, limit: PAGE, offset },
    every: 10,
  });
  const [asked, setAsked] = useState(null);
  const reload = () => Promise.all([groups.reload(), letters.reload()]);
  return html`
    <${React.Fragment}>
      <${Filters} values=${{ ...values, state }} set=${set} />
      <${Section} title="By reason">
        <${Answer} query=${groups} rows=${3} empty=${{
          when: (data) => !data.groups.length,
          title: state === "waiting" ? "No dead letter waits" : "No dead letter fits",
          hint: state === "waiting" ? "Every document that came in was processed, or a decision was made about it." : "",
        }}>
          ${(data) => html`<${Groups} data=${data} values=${values} set=${set} state=${state} onAsk=${setAsked} />`}
        <//>
      <//>
      <${Section} title=${values.group ? "Letters of this reason" : "Letters"}>
        <${Answer} query=${letters} rows=${4} empty=${{ when: (data) => !data.letters.length, title: "No letter to show" }}>
          ${(data) => html`<${List} data=${data} values=${values} set=${set} offset=${offset} />`}
        <//>
      <//>
      ${values.letter
        ? html`<${Boundary} key=${values.letter} what="This letter">
            <${Letter} pipeline=${pipeline} id=${values.letter} onClose=${() => set({ letter: "" })} onAsk=${setAsked} />
          <//>`
        : null}
      <${Act} pipeline=${pipeline} asked=${asked} onDone=${reload} onClose=${() => setAsked(null)} />
    <//>
  `;
}

function Filters({ values, set }) {
  const field = (name, label) => html`
    <${Input} key=${name + (values[name] ?? "")} size="sm" width=${{ base: "100%", sm: "190px" }} aria-label=${label} placeholder=${label} defaultValue=${values[name] ?? ""}
      onBlur=${(event) => event.target.value !== (values[name] ?? "") && set({ [name]: event.target.value.trim(), offset: "" })}
      onKeyDown=${(event) => event.key === "Enter" && set({ [name]: event.target.value.trim(), offset: "" })} />
  `;
  return html`
    <${Flex} gap="2" mb="5" wrap="wrap" role="search" aria-label="Filter dead letters">
      <${NativeSelect.Root} size="sm" width="150px">
        <${NativeSelect.Field} aria-label="State" value=${values.state} onChange=${(event) => set({ state: event.target.value, group: "", letter: "", offset: "" })}>
          ${STATES.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        <//>
        <${NativeSelect.Indicator} />
      <//>
      ${field("node", "Node, such as parse-*")} ${field("error", "Error, such as Module*")} ${field("doc", "Document id")}
      ${values.group || values.node || values.error || values.doc
        ? html`<${Button} size="sm" variant="ghost" onClick=${() => set({ group: "", node: "", error: "", doc: "", offset: "", letter: "" })}>Clear<//>`
        : null}
    <//>
  `;
}

const Message = ({ letter: { error, message } }) => html`
  <${Text} fontSize="xs" lineClamp="3" minWidth=${{ base: "160px", lg: "240px" }} wordBreak="break-word" title=${`${error}: ${message}`}>${message}<//>
`;

function Groups({ data, values, set, state, onAsk }) {
  const ask = (act, group) => (event) => {
    event.stopPropagation();
    onAsk({ act, what: `${plural(group.count, "dead letter")}: ${group.error} at ${group.node}`, body: { fingerprints: [group.fingerprint] } });
  };
  return html`
    <div>
      ${data.complete ? null : html`<${Alert.Root} status="info" mb="2"><${Alert.Indicator} /><${Alert.Description}>There are more letters than were read; the counts are of the newest.<//><//>`}
      <${Grid} label="Dead letters by reason" rows=${data.groups} rowKey=${(each) => each.fingerprint} selected=${values.group}
        onRow=${(each) => set({ group: values.group === each.fingerprint ? "" : each.fingerprint, offset: "" })} columns=${[
          { title: "Count", number: true, cell: (each) => count(each.count) },
          { title: "Error", cell: (each) => html`<${Text} fontWeight="medium" color="red.fg">${each.error}<//>` },
          { title: "Node", cell: (each) => each.node },
          { title: "Message", wrap: true, cell: (each) => html`<${Message} letter=${each} />` },
          { title: "Last", cell: (each) => html`<span title=${time(each.last_failed_at)}>${ago(each.last_failed_at)}</span>` },
          { title: "", cell: (each) => html`
              <${Stack} gap="1" direction=${{ base: "column", lg: "row" }}>
                ${state === "quarantined"
                  ? html`<${Button} size="xs" variant="outline" onClick=${ask("release", each)}>Release<//>`
                  : state === "waiting"
                    ? html`<${React.Fragment}>
                        <${Button} size="xs" variant="outline" onClick=${ask("replay", each)}>Replay<//>
                        <${Button} size="xs" variant="outline" onClick=${ask("quarantine", each)}>Quarantine<//>
                      <//>`
                    : null}
              <//>` },
        ]} />
    </div>
  `;
}

function List({ data, values, set, offset }) {
  return html`
    <div>
      <${Grid} label="Dead letters" rows=${data.letters} rowKey=${(each) => each.id} selected=${values.letter} columns=${[
        { title: "Document", wrap: "narrow", cell: (each) => html`
            <${Button} size="xs" variant="plain" px="0" height="auto" minHeight="8" whiteSpace="inherit" textAlign="start" color="fg.info" textDecoration="underline"
              onClick=${() => set({ letter: each.id })}><${Mono}>${each.doc_id || each.id}<//><//>` },
        { title: "Node", cell: (each) => each.node },
        { title: "Message", wrap: true, cell: (each) => html`<${Message} letter=${each} />` },
        { title: "State", cell: (each) => html`<${Tag}>${each.state}<//>` },
        { title: "Failed", cell: (each) => html`<span title=${time(each.failed_at)}>${ago(each.failed_at)}</span>` },
        { title: "Attempts", number: true, cell: (each) => count(each.attempts) },
        { title: "Replays", number: true, cell: (each) => count(each.replays) },
        { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
      ]} />
      ${data.total > PAGE
        ? html`
            <${HStack} mt="2" fontSize="sm">
              <${Button} size="xs" variant="outline" disabled=${offset === 0} onClick=${() => set({ offset: Math.max(0, offset - PAGE) || "" })}>Newer<//>
              <${Text} className="ps-number">${count(offset + 1)}–${count(Math.min(offset + PAGE, data.total))} of ${count(data.total)}<//>
              <${Button} size="xs" variant="outline" disabled=${offset + PAGE >= data.total} onClick=${() => set({ offset: offset + PAGE })}>Older<//>
            <//>
          `
        : null}
    </div>
  `;
}

function Letter({ pipeline, id, onClose, onAsk }) {
  const [topic, partition, offset] = splitId(id);
  const query = useQuery(path`pipelines/${pipeline.id}/dead-letters/${topic}/${partition}/${offset}`);
  const box = React.useRef(null);
  useEffect(() => {
    // Newer browsers return a promise here, which React would take for a clean-up.
    box.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return html`
    <${Box} ref=${box} as="section" aria-label="Dead letter" borderWidth="1px" borderRadius="md" p="4" bg="bg.panel" position="relative" mb="6">
      <${CloseButton} position="absolute" right="2" top="2" size="sm" aria-label="Close the letter" onClick=${onClose} />
      <${Answer} query=${query} rows=${4}>
        ${({ letter, headers, document, note }) => html`
          <div>
            <${Heading} as="h2" size="md" pr="8" mb="3">${letter.error} at ${letter.node}<//>
            <${HStack} gap="2" mb="4" wrap="wrap">
              <${Button} size="sm" onClick=${() => onAsk({ act: "replay", what: `the dead letter of ${letter.doc_id}`, body: { letters: [letter.id] } })}>Replay<//>
              <${Button} size="sm" variant="outline" onClick=${() => onAsk({ act: "quarantine", what: `the dead letter of ${letter.doc_id}`, body: { letters: [letter.id] } })}>Quarantine<//>
              ${letter.doc_id ? html`<${Button} as=${Router.Link} size="sm" variant="outline" to=${pageLink("pipeline-documents", { pipeline: pipeline.id, doc: letter.doc_id })}>Receipt<//>` : null}
            <//>
            <${Flex} gap="5" direction=${{ base: "column", lg: "row" }}>
              <${Box} flex="1" minWidth="0">
                <${Text} fontWeight="semibold" mb="1">Error<//>
                <${Source} label="Error" text=${letter.message} maxHeight="240px" />
                <${Box} mt="3"><${Facts} pairs=${[
                  ["Letter", html`<${Mono}>${letter.id}<//>`],
                  ["State", html`<${Tag}>${letter.state}<//>`],
                  ["From", letter.origin && html`<${Mono}>${letter.origin.topic} [${letter.origin.partition}] at ${letter.origin.offset}<//>`],
                  ["Failed", time(letter.failed_at)],
                  ["First failed", time(letter.first_failed_at)],
                  ["Attempts", count(letter.attempts)],
                  ["Replays", count(letter.replays)],
                  ["Run", html`<${Mono}>${letter.run_id}<//>`],
                  ["Graph", html`<${Mono}>${letter.graph_hash?.slice(0, 12)}<//>`],
                ]} /><//>
              <//>
              <${Box} flex="1" minWidth="0">
                <${Text} fontWeight="semibold" mb="1">Document<//>
                ${document
                  ? html`<${Source} label="Document" text=${JSON.stringify(document.document, null, 2)} maxHeight="420px" />`
                  : html`<${Text} fontSize="sm" color="fg.muted">${note || "There is no document."}<//>`}
              <//>
            <//>
            <${Box} mt="3"><details><summary>${plural(headers.length, "header")} of the record</summary>
              <${Source} label="Headers" text=${headers.map(([name, value]) => `${name}: ${value ?? ""}`).join("\n")} />
            </details><//>
          </div>
        `}
      <//>
    <//>
  `;
}

/** TOPIC/PARTITION/OFFSET */
function splitId(id) {
  const parts = id.split("/");
  return [parts.slice(0, -2).join("/"), parts.at(-2), parts.at(-1)];
}

const VERBS = { replay: "Replay", quarantine: "Quarantine", release: "Release" };

/** Ask before it happens, with the dry run in the question. */
function Act({ pipeline, asked, onDone, onClose }) {
  const send = (dry) => call("POST", path`pipelines/${pipeline.id}/dead-letters/actions`, { body: { act: asked.act, dry_run: dry, ...asked.body } });
  const dry = useAction(() => send(true));
  const real = useAction(async () => {
    const done = await send(false);
    await onDone();
    return done;
  });
  useEffect(() => {
    if (asked) {
      real.reset();
      dry.run();
    }
  }, [asked]);
  if (!asked) return null;
  const verb = VERBS[asked.act];
  const approval = dry.done?.approval_dag;
  const over = real.done || approval;
  return html`
    <${Confirm} open title=${real.done ? `${verb}: done` : `${verb} ${asked.what}?`} verb=${verb} busy=${real.busy || dry.busy} isDone=${Boolean(over)} isOff=${!dry.done}
      onCancel=${onClose} onConfirm=${() => real.run()}>
      <${Box} aria-live="polite" data-testid=${real.done ? "acted" : "dry-run"}>
        ${dry.error ? html`<${Failure} title="The dry run failed" error=${dry.error} />` : null}
        ${real.error ? html`<${Failure} title="It failed" error=${real.error} />` : null}
        ${approval
          ? html`<${Text} mb="3">So many need an approval. Start the DAG <${Router.Link} to=${`/dags/${approval}`} style=${{ textDecoration: "underline" }}>${approval}<//> with the action replay.<//>`
          : null}
        ${real.done ? html`<${Outcome} title="Done" result=${real.done} />` : dry.done ? html`<${Outcome} title="Dry run: nothing is changed yet" result=${dry.done} />` : null}
      <//>
    <//>
  `;
}

const list = (counts) => Object.entries(counts).map(([name, number]) => `${name}: ${count(number)}`).join(", ");

function Outcome({ title, result }) {
  return html`
    <div>
      <${Text} fontSize="sm" mb="2" color="fg.muted">${title}<//>
      <${Facts} pairs=${[
        ["Decided", list(result.decided) || "nothing"],
        ["Sent to", list(result.sent) || "nowhere"],
        ["Left open", list(result.left_open)],
        ["By error", list(result.by_error)],
        ["By node", list(result.by_node)],
        ["Action", result.action_id && html`<${Mono}>${result.action_id}<//>`],
      ]} />
    </div>
  `;
}
