// The picture of one pipeline with what is going on in it, and a panel for the part that is chosen.
import { Chakra, html, useEffect, useMemo, useRef } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { Boundary, Empty, Failure, Figure, Figures, Unavailable, pageLink } from "../lib/parts.js";
import { Picture } from "../lib/picture.js";
import { EdgePanel } from "./edge_panel.js";
import { NodePanel } from "./node_panel.js";

const { Box, CloseButton, Flex, HStack, Text } = Chakra;

export function LivePicture({ detail, values, set }) {
  const { pipeline, layout, picture } = detail;
  const query = useQuery(path`pipelines/${pipeline.id}/numbers`, { every: 3, enabled: pipeline.version !== null });
  const live = query.data;
  const state = useQuery(path`pipelines/${pipeline.id}/state`, { every: 10, enabled: pipeline.version !== null }).data;
  const numbers = useMemo(() => (live && picture ? boxNumbers(live, picture, state) : undefined), [live, picture, state]);
  const panel = useRef(null);
  // In a narrow window the panel is below the picture, where nobody would see that it has opened.
  useEffect(() => {
    if (panel.current?.getBoundingClientRect().top > 0.8 * window.innerHeight) panel.current.scrollIntoView({ block: "start" });
  }, [values.node, values.edge]);
  const counts = useMemo(() => (live ? Object.fromEntries(live.edges.map((edge) => [edge.id, edgeCounts(edge)])) : {}), [live]);
  if (!layout) {
    return html`<${Empty} title="There is no picture">The graph cannot be read. Its problems are above; the tab Edit has its text.<//>`;
  }
  const selected = values.node ? { kind: "node", id: values.node } : values.edge ? { kind: "edge", id: values.edge } : null;
  const select = (choice) => set({ node: choice.kind === "node" ? choice.id : "", edge: choice.kind === "edge" ? choice.id : "" });
  return html`
    <div>
      ${query.error ? html`<${Failure} status="warning" title="The numbers are not up to date" error=${query.error} onRetry=${query.reload} />` : null}
      <${Unavailable} parts=${live?.unavailable} />
      <${Totals} live=${live} pipeline=${pipeline} />
      <${Flex} gap="4" direction=${{ base: "column", xl: "row" }} align="stretch">
        <${Box} flex="1" minWidth="0">
          <${Picture} layout=${layout} numbers=${numbers} counts=${counts} selected=${selected} onSelect=${select}
            label=${`Graph ${pipeline.title}. Arrow keys move, plus and minus zoom, 0 fits.`} />
          <${Legend} />
        <//>
        ${selected
          ? html`
              <${Box} ref=${panel} as="aside" aria-label="Details" width=${{ base: "100%", xl: "440px" }} flexShrink="0" borderWidth="1px" borderRadius="md" bg="bg.panel" p="4" position="relative">
                <${CloseButton} position="absolute" right="2" top="2" size="sm" aria-label="Close details" onClick=${() => set({ node: "", edge: "" })} />
                <${Boundary} key=${`${selected.kind}:${selected.id}`} what="This part">
                  ${selected.kind === "node"
                    ? html`<${NodePanel} id=${selected.id} detail=${detail} live=${live} />`
                    : html`<${EdgePanel} id=${selected.id} detail=${detail} live=${live} />`}
                <//>
              <//>
            `
          : null}
      <//>
    </div>
  `;
}

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);

function Totals({ live, pipeline }) {
  const nodes = live?.nodes ?? [];
  const known = nodes.some((node) => node.waiting !== null);
  const waiting = live ? (known ? sum(nodes.map((node) => node.waiting)) : null) : pipeline.waiting;
  const dead = live ? (known ? sum(nodes.map((node) => node.dead_letters)) : null) : pipeline.dead_letters;
  const oldest = live ? Math.max(0, ...nodes.map((node) => node.oldest_age_s ?? 0)) : pipeline.oldest_age_s;
  return html`
    <${Figures}>
      <${Figure} label="Waiting" testId="waiting" value=${count(waiting)} tone=${waiting ? "orange.fg" : undefined} hint="Records that are not drained yet" />
      <${Figure} label="Oldest" value=${waiting ? duration(oldest) : "–"} hint="Age of the oldest record that waits" />
      <${Figure} label=${live ? `Drained in ${duration(live.window_s)}` : "Drained"} testId="drained" value=${live ? count(sum(nodes.map((node) => node.records))) : "–"} hint="Records of all topics, by the ledger" />
      <${Figure} label="Leases held" value=${live ? count(sum(nodes.map((node) => node.holders?.length))) : "–"} />
      <${Figure} label="Dead letters" testId="dead-letters" value=${count(dead)} tone=${dead ? "red.fg" : undefined}
        to=${dead ? pageLink("pipeline-dead-letters", { pipeline: pipeline.id }) : undefined} />
    <//>
  `;
}

function Legend() {
  const line = (dash) => html`<svg width="28" height="8" aria-hidden="true"><path d="M0 4H28" stroke="currentColor" strokeWidth="1.6" strokeDasharray=${dash} /></svg>`;
  return html`
    <${HStack} gap="4" wrap="wrap" mt="2" fontSize="xs" color="fg.muted">
      <${HStack} gap="1">${line(undefined)}<${Text}>by Kafka<//><//>
      <${HStack} gap="1">${line("7 5")}<${Text}>in the same task or by gRPC<//><//>
      <${HStack} gap="1">${line("2 5")}<${Text}>condition never true in drains<//><//>
      <${Text}>✓ ✗ ! how often a condition was true, false, failed<//>
      <${HStack} gap="1"><${Box} boxSize="8px" borderRadius="full" bg="green.solid" /><${Text}>a lease is held<//><//>
      <${Text}>Drag to move, Ctrl and wheel to zoom<//>
    <//>
  `;
}

/** Numbers for the boxes of nodes, and which nodes and datasources an operator has stopped. */
function boxNumbers(live, picture, state) {
  const stopped = new Set((state?.topics ?? []).filter((each) => each.desired === "stopped").map((each) => each.topic));
  const found = {};
  for (const source of picture.datasources) {
    if (source.paused) found[`datasource:${source.id}`] = { held: "paused: takes no documents" };
  }
  for (const node of live.nodes) {
    const part = picture.nodes.find((each) => each.id === node.id);
    if (!part || (part.is_end && !part.module)) continue;
    found[node.id] = {
      lag: node.waiting,
      age: node.oldest_age_s,
      rate: node.records_per_s,
      holders: node.holders?.length ?? 0,
      dead: node.dead_letters,
      held: part.topics.some((topic) => stopped.has(topic)) ? "stopped" : "",
    };
  }
  return found;
}

const edgeCounts = (edge) => ({ taken: edge.taken ?? 0, refused: edge.not_taken, failed: edge.failed });

