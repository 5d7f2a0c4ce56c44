// An edge of a graph: what it says, how often its condition was true, and a try-out on a document.
import { Chakra, html, useState } from "../lib/react.js";
import { call, path, useAction } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { Facts, Failure, Mono, Section, Source, Tag } from "../lib/parts.js";

const { Alert, Box, Button, Field, Heading, HStack, Input, Text, Textarea } = Chakra;

const WAYS = {
  node: "by Kafka, to the node's topic",
  rest: "by Kafka; documents stay in the end's topic",
  bridge: "by Kafka, to another cluster",
  fused: "in the same task, without a topic",
  engine: "by a call to a remote engine",
};

export function EdgePanel({ id, detail, live }) {
  const edge = detail.picture.edges.find((each) => each.id === id);
  if (!edge) return html`<${Text} fontSize="sm" color="fg.muted">This edge is no longer in the graph.<//>`;
  const counts = live?.edges.find((each) => each.id === id);
  return html`
    <div>
      <${Heading} as="h2" size="md" pr="8">${edge.id}<//>
      <${HStack} gap="2" mt="1" mb="3"><${Tag} tone="blue">${edge.transport}<//>${edge.way === "fused" ? html`<${Tag} tone="purple">fused<//>` : null}<//>
      <${Facts} pairs=${[
        ["From", edge.source],
        ["To", edge.target_cluster ? `${edge.target} in cluster ${edge.target_cluster}` : edge.target],
        ["Goes", WAYS[edge.way] ?? edge.way],
        ["Topic", edge.topic && html`<${Mono}>${edge.topic}<//>`],
        ["Priority", edge.priority ? count(edge.priority) : ""],
        ["At most", edge.max_hops ? `${edge.max_hops} times a document` : ""],
        counts && counts.not_taken === null && ["Taken", counts.taken === null ? "" : `${count(counts.taken)} in ${duration(live.window_s)}`],
      ]} />
      <${Section} title="Condition">
        ${edge.condition ? html`<${Source} label="Condition" text=${edge.condition} />` : html`<${Text} fontSize="sm" color="fg.muted">Always taken.<//>`}
        ${edge.condition && counts ? html`<${Decided} counts=${counts} window=${live.window_s} />` : null}
      <//>
      <${TryOut} pipeline=${detail.pipeline.id} condition=${edge.condition} source=${edge.source} />
    </div>
  `;
}

const DECIDED = [
  { name: "True", of: (counts) => counts.taken, colour: "green.solid" },
  { name: "False", of: (counts) => counts.not_taken, colour: "gray.solid" },
  { name: "Failed", of: (counts) => counts.failed, colour: "red.solid" },
];

/** How often the condition was true, false and failed, as numbers and as a bar. */
function Decided({ counts, window }) {
  if (counts.not_taken === null) {
    return html`<${Text} mt="2" fontSize="xs" color="fg.muted">No drain has evaluated it in the last ${duration(window)}.<//>`;
  }
  const total = Math.max(1, counts.taken + counts.not_taken + counts.failed);
  return html`
    <${Box} mt="3" data-testid="decided">
      <${HStack} gap="0" height="8px" borderRadius="full" overflow="hidden" bg="bg.muted" aria-hidden="true">
        ${DECIDED.map(({ name, of, colour }) => html`<${Box} key=${name} height="100%" width=${`${(100 * of(counts)) / total}%`} bg=${colour} />`)}
      <//>
      <${HStack} gap="4" mt="2" wrap="wrap" fontSize="sm">
        ${DECIDED.map(({ name, of, colour }) => html`
          <${HStack} key=${name} gap="1">
            <${Box} boxSize="8px" borderRadius="full" bg=${colour} aria-hidden="true" />
            <${Text} className="ps-number">${`${name} ${count(of(counts))}`}<//>
          <//>
        `)}
      <//>
      <${Text} mt="1" fontSize="xs" color=${counts.taken ? "fg.muted" : "orange.fg"}>
        ${counts.taken ? `In the last ${duration(window)}, in drains.` : `Never true in drains of the last ${duration(window)}. Calls of the Engine are not counted.`}
      <//>
    <//>
  `;
}

const SAMPLE = JSON.stringify({ doc_id: "d1", search_metadata: { title: "An example", document_type: "TEXT" } }, null, 2);

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The document is not JSON: ${error.message}`);
  }
}

/** The object of a document after the node that the edge leaves; else the last one that is stored. */
async function findStored(pipeline, docId, source) {
  const { objects } = await call("GET", path`pipelines/${pipeline}/documents/${docId}`);
  const found = objects.find((each) => each.node === source) ?? objects.at(-1);
  if (!found) throw new Error(`No document of ${docId} is stored`);
  return { doc_id: docId, key: found.key };
}

function TryOut({ pipeline, condition, source }) {
  const [text, setText] = useState(condition || "true");
  const [pasted, setPasted] = useState(SAMPLE);
  const [docId, setDocId] = useState("");
  const attempt = useAction(async () => {
    const sample = docId.trim() ? await findStored(pipeline, docId.trim(), source) : { document: parse(pasted) };
    return call("POST", path`pipelines/${pipeline}/conditions/try`, { body: { condition: text, sample } });
  });
  return html`
    <${Section} title="Try it">
      <${Box} as="form" onSubmit=${(event) => { event.preventDefault(); attempt.run(); }}>
        <${Field.Root} mb="3">
          <${Field.Label} fontSize="xs">Condition<//>
          <${Textarea} size="sm" fontFamily="mono" fontSize="xs" rows="3" value=${text} onChange=${(event) => setText(event.target.value)} spellCheck=${false} />
        <//>
        <${Field.Root} mb="3">
          <${Field.Label} fontSize="xs">Id of a stored document<//>
          <${Input} size="sm" value=${docId} onChange=${(event) => setDocId(event.target.value)} placeholder="or leave it empty and paste one below" />
        <//>
        <${Field.Root} mb="3" disabled=${Boolean(docId)}>
          <${Field.Label} fontSize="xs">Document, as JSON<//>
          <${Textarea} size="sm" fontFamily="mono" fontSize="xs" rows="7" value=${pasted} onChange=${(event) => setPasted(event.target.value)} spellCheck=${false} />
        <//>
        <${Button} type="submit" size="sm" loading=${attempt.busy}>Try the condition<//>
      <//>
      <${Box} mt="3" aria-live="polite">
        ${attempt.error ? html`<${Failure} error=${attempt.error} />` : null}
        ${attempt.done ? html`<${Verdict} answer=${attempt.done} />` : null}
      <//>
    <//>
  `;
}

function Verdict({ answer }) {
    const failed = answer.result === null || answer.result === undefined;
  const status = failed ? "error" : answer.result ? "success" : "info";
  return html`
    <${Alert.Root} status=${status} data-testid="verdict">
      <${Alert.Indicator} />
      <${Alert.Content}>
        <${Alert.Title}>${failed ? "The condition fails on this document" : answer.result ? "True: the document takes this edge" : "False: the document does not take this edge"}<//>
        ${failed ? html`<${Alert.Description} whiteSpace="pre-wrap">${[answer.error, ...answer.problems].filter(Boolean).join("\n")}<//>` : null}
      <//>
    <//>
  `;
}
