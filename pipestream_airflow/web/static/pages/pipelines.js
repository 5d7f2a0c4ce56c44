// Pipelines: every graph as a picture; one of them with its live numbers, its editor and its history.
import { Chakra, Router, html, useEffect, useRef, useState } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { Answer, Boundary, Failure, Figure, Figures, Page, Tag, TextLink, Unavailable, pageLink, usePageState } from "../lib/parts.js";
import { Picture } from "../lib/picture.js";
import { DeleteButton } from "./delete.js";
import { Editor } from "./editor.js";
import { History } from "./history.js";
import { LivePicture } from "./live_picture.js";
import { RunButtons } from "./runs.js";

const { Box, Button, Flex, Heading, HStack, SimpleGrid, Skeleton, Tabs, Text } = Chakra;

export function PipelinesPage() {
  const [values, set] = usePageState();
  if (values.pipeline) return html`<${Pipeline} key=${values.pipeline} id=${values.pipeline} values=${values} set=${set} />`;
  if (values.tab === "new") return html`<${NewPipeline} set=${set} />`;
  return html`<${PipelineList} set=${set} />`;
}

function PipelineList({ set }) {
  const query = useQuery("pipelines", { every: 10 });
  return html`
    <${Page} route="pipelines" title="Pipelines" actions=${html`<${Button} size="sm" onClick=${() => set({ tab: "new" })}>New pipeline<//>`}>
      <${Answer} query=${query} empty=${{
        when: (data) => data.pipelines.length === 0,
        title: "There is no pipeline yet",
        hint: "Put a graph file into dags/graphs, or create one here.",
      }}>
        ${(data) => html`
          <div>
            <${Unavailable} parts=${data.unavailable} />
            <${SimpleGrid} minChildWidth=${{ base: "100%", md: "420px" }} gap="4">
              ${data.pipelines.map((each) => html`<${Card} key=${each.id} pipeline=${each} />`)}
            <//>
          </div>
        `}
      <//>
    <//>
  `;
}

function Card({ pipeline }) {
  return html`
    <${Box} as=${Router.Link} to=${pageLink("pipelines", { pipeline: pipeline.id })} borderWidth="1px" borderRadius="lg" overflow="hidden" bg="bg.panel"
      _hover=${{ borderColor: "brand.solid" }} display="flex" flexDirection="column" maxWidth="720px" aria-label=${`Pipeline ${pipeline.title}`}>
      <${Box} p="4" pb="0" flex="1">
        <${Flex} justify="space-between" gap="2" align="start">
          <${Box} minWidth="0">
            <${Heading} as="h2" size="md">${pipeline.title}<//>
            <${Text} fontSize="xs" color="fg.muted">
              ${pipeline.id} · ${pipeline.version === null ? "never applied" : `version ${pipeline.version}`} · ${plural(pipeline.nodes, "node")} ·${" "}
              ${plural(pipeline.edges, "edge")}
            <//>
          <//>
          <${HStack} gap="1"><${Tag}>${pipeline.state}<//>${pipeline.mode === "design" ? html`<${Tag}>design<//>` : null}<//>
        <//>
        ${pipeline.description ? html`<${Text} fontSize="sm" color="fg.muted" mt="1" lineClamp="2">${pipeline.description}<//>` : null}
        <${Box} mt="3"><${PipelineFigures} pipeline=${pipeline} /><//>
        ${pipeline.problems.length
          ? html`<${Failure} status=${pipeline.state === "broken" ? "error" : "warning"} title="The graph's file has problems"
              error=${{ message: pipeline.problems.slice(0, 3).join("\n") }} />`
          : null}
      <//>
      <${Boundary} what="The picture"><${Thumbnail} id=${pipeline.id} hash=${pipeline.hash} title=${pipeline.title} /><//>
    <//>
  `;
}

function PipelineFigures({ pipeline, more }) {
  return html`
    <${Figures}>
      <${Figure} label="Waiting" testId="waiting" value=${count(pipeline.waiting)} tone=${pipeline.waiting ? "orange.fg" : undefined}
        hint="Records in its topics that are not drained yet" />
      <${Figure} label="Oldest" value=${pipeline.waiting ? duration(pipeline.oldest_age_s) : "–"} hint="Age of the oldest record that waits" />
      <${Figure} label="Dead letters" testId="dead-letters" value=${count(pipeline.dead_letters)} tone=${pipeline.dead_letters ? "red.fg" : undefined} />
      ${more}
    <//>
  `;
}

/** The picture of a card, asked for when the card comes into view. */
function Thumbnail({ id, hash, title }) {
  const box = useRef(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const query = useQuery(path`pipelines/${id}`, { query: { hash: hash || undefined }, enabled: isSeen });
  const layout = query.data?.layout;
  return html`
    <${Box} ref=${box} borderTopWidth="1px" height="180px" bg="bg.subtle">
      ${layout
        ? html`<${Picture} layout=${layout} still height=${180} label=${`Picture of ${title}`} />`
        : query.data || query.error
          ? html`<${Text} p="6" textAlign="center" fontSize="sm" color="fg.muted">No picture: the graph cannot be read.<//>`
          : html`<${Skeleton} height="100%" borderRadius="0" />`}
    <//>
  `;
}

function NewPipeline({ set }) {
  return html`
    <${Page} route="pipelines" title="New pipeline"
      actions=${html`<${Button} size="sm" variant="outline" onClick=${() => set({ tab: "" })}>Back to all pipelines<//>`}>
      <${Editor} text=${EXAMPLE} onApplied=${(answer, id) => set({ tab: "", pipeline: id })} />
    <//>
  `;
}

const EXAMPLE = `graph: my-graph
cluster: main
schedule: "@hourly"

datasources:
  - {id: my-files, account: acme, entry: first}

nodes:
  - {id: first, module: "python:pipestream.modules.documents.kinds:identify"}
  - {id: second, module: "python:pipestream.modules.documents.parse:parse"}

edges:
  - {id: texts, from: first, to: second, when: doc.search_metadata.document_type == "TEXT"}
`;

function Pipeline({ id, values, set }) {
  const query = useQuery(path`pipelines/${id}`, { every: 30 });
  const pipeline = query.data?.pipeline;
  const tab = values.tab ?? "picture";
  return html`
    <${Page} route="pipelines" title=${pipeline?.title ?? id} actions=${html`<${PipelineActions} pipeline=${pipeline} onDeleted=${() => set({ pipeline: "", tab: "", node: "", edge: "" })} />`}>
      <${HStack} gap="2" mt="-3" mb="3" wrap="wrap" fontSize="sm" color="fg.muted">
        <span><${TextLink} to=${pageLink("pipelines")}>All pipelines<//>${" / "}${id}</span>
        ${pipeline ? html`<${PipelineTags} pipeline=${pipeline} />` : null}
      <//>
      <${Answer} query=${query}>
        ${(data) => html`
          <div>
            ${data.pipeline.problems.length
              ? html`<${Failure} status=${data.pipeline.state === "broken" ? "error" : "warning"} title="The graph's file has problems" error=${{ message: data.pipeline.problems.join("\n") }} />`
              : null}
            <${Tabs.Root} value=${tab} onValueChange=${(change) => set({ tab: change.value === "picture" ? "" : change.value, node: "", edge: "" })} lazyMount unmountOnExit size="sm">
              <${Tabs.List} mb="3">
                <${Tabs.Trigger} value="picture">Picture<//>
                <${Tabs.Trigger} value="edit">Edit<//>
                <${Tabs.Trigger} value="history">History<//>
              <//>
              <${Tabs.Content} value="picture" pt="0">
                <${Boundary} what="The picture"><${LivePicture} detail=${data} values=${values} set=${set} /><//>
              <//>
              <${Tabs.Content} value="edit" pt="0">
                <${Boundary} what="The editor">
                  <${Editor} id=${id} base=${data.pipeline.version} text=${data.yaml} onApplied=${query.reload}
                    file=${data.file_yaml ? { name: data.pipeline.file.name, text: data.file_yaml } : undefined} />
                <//>
              <//>
              <${Tabs.Content} value="history" pt="0">
                <${Boundary} what="The history"><${History} id=${id} active=${data.pipeline.version} file=${data.pipeline.file} onChanged=${query.reload} /><//>
              <//>
            <//>
          </div>
        `}
      <//>
    <//>
  `;
}

function PipelineTags({ pipeline }) {
  return html`
    <${HStack} gap="2" wrap="wrap">
      <${Tag}>${pipeline.state}<//>
      <${Tag}>${pipeline.mode}<//>
      <${Tag} tone="gray">${pipeline.version === null ? "never applied" : `version ${pipeline.version}`}<//>
      <${Tag} tone="gray">${pipeline.drained_by}<//>
      ${pipeline.file && !pipeline.file.is_applied ? html`<${Tag} tone="orange">file differs from the active version<//>` : null}
    <//>
  `;
}

/** What can be done with the pipeline. Its other pages are in the tabs above. */
function PipelineActions({ pipeline, onDeleted }) {
  if (!pipeline) return null;
  return html`
    <${HStack} gap="2" wrap="wrap">
      ${pipeline.version ? html`<${RunButtons} dag=${pipeline.dag_id} />` : null}
      <${Button} as=${Router.Link} to=${`/dags/${pipeline.dag_id}`} size="xs" variant="outline">DAG<//>
      ${pipeline.version ? html`<${DeleteButton} pipeline=${pipeline} onDeleted=${onDeleted} />` : null}
    <//>
  `;
}
