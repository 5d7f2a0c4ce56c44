// What is known of a node or a datasource of a graph.
import { Chakra, html } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { ago, count, duration, plural, rate, time } from "../lib/format.js";
import { Answer, Facts, Grid, Mono, Section, Source, Tag, TextLink, pageLink } from "../lib/parts.js";

const { Box, Heading, HStack, Stack, Text } = Chakra;

const MOST_ERRORS = 3;

export function NodePanel({ id, detail, live }) {
  const { picture, pipeline } = detail;
  if (id.startsWith("datasource:")) {
    const source = picture.datasources.find((each) => `datasource:${each.id}` === id);
    return source ? html`<${DatasourceFacts} source=${source} pipeline=${pipeline} />` : html`<${Gone} />`;
  }
  const node = picture.nodes.find((each) => each.id === id);
  if (!node) return html`<${Gone} />`;
  const numbers = live?.nodes.find((each) => each.id === id);
  return html`
    <div>
      <${Heading} as="h2" size="md" pr="8">${node.name || node.id}<//>
      <${HStack} gap="2" mt="1" mb="3"><${Tag} tone="blue">${node.type}<//>${node.is_end ? html`<${Tag} tone="gray">end<//>` : null}<//>
      <${Facts} pairs=${[
        ["Node", node.id],
        ["Module", node.module ? html`<${Mono}>${node.module}<//>` : "none: documents pass through"],
        ["Engine", node.engine],
        ["Topics", node.topics.length ? node.topics.map((topic) => html`<${Mono} key=${topic} display="block">${topic}<//>`) : "none: it runs where it is reached"],
        ["Dead letters to", node.dead_letter_topic && html`<${Mono}>${node.dead_letter_topic}<//>`],
        ["Filters", node.filters.length ? node.filters.map((each, index) => html`<${Mono} key=${index} display="block">${each}<//>`) : ""],
      ]} />
      ${numbers ? html`<${NodeNumbers} numbers=${numbers} live=${live} pipeline=${pipeline} node=${node} />` : null}
      ${numbers?.dead_letters ? html`<${LastErrors} pipeline=${pipeline} node=${node} />` : null}
      ${node.topics.length && pipeline.version !== null ? html`<${LastRanges} pipeline=${pipeline} topic=${node.topics[0]} />` : null}
      <${Section} title="As in the graph's file"><${Source} label="The node as the graph's file has it" text=${JSON.stringify(node.values, null, 2)} maxHeight="200px" /><//>
    </div>
  `;
}

const Gone = () => html`<${Text} fontSize="sm" color="fg.muted">This part is no longer in the graph.<//>`;

function NodeNumbers({ numbers, live, pipeline, node }) {
  return html`
    <${Box} my="4">
      <${Facts} pairs=${[
        ["Waiting", count(numbers.waiting)],
        ["Oldest", numbers.waiting ? duration(numbers.oldest_age_s) : "–"],
        [`Last ${duration(live.window_s)}`, `${count(numbers.records)} records in ${duration(numbers.seconds)}`],
        ["Pace", rate(numbers.records_per_s)],
        ["Last range", numbers.last_entry_at ? `${time(numbers.last_entry_at)} (${ago(numbers.last_entry_at)})` : "none"],
        ["Dead letters", numbers.dead_letters
          ? html`<${TextLink} to=${pageLink("pipeline-dead-letters", { pipeline: pipeline.id, node: node.id })}>${count(numbers.dead_letters)}<//>`
          : count(numbers.dead_letters)],
      ]} />
      ${numbers.holders?.length
        ? html`<${Box} mt="3"><${Grid} label="Lease holders" rows=${numbers.holders} rowKey=${(each) => `${each.topic}/${each.slot}`} columns=${[
            { title: "Slot", number: true, cell: (each) => each.slot },
            { title: "Holder", wrap: true, cell: (each) => html`<${Mono}>${each.holder}<//>` },
            { title: "Until", cell: (each) => ago(each.until) },
            { title: "Token", number: true, cell: (each) => count(each.token) },
          ]} /><//>`
        : null}
    <//>
  `;
}

/** Why documents failed at the node, the most frequent reason first. */
function LastErrors({ pipeline, node }) {
  const query = useQuery(path`pipelines/${pipeline.id}/dead-letters/groups`, { query: { node: node.id }, every: 10 });
  return html`
    <${Section} title="Errors">
      <${Answer} query=${query} rows=${2} empty=${{ when: (data) => !data.groups.length, title: "No dead letter waits" }}>
        ${(data) => html`<${Stack} gap="2">
          ${data.groups.slice(0, MOST_ERRORS).map((each) => html`
            <${Box} key=${each.fingerprint} borderWidth="1px" borderRadius="md" p="2" fontSize="xs">
              <${HStack} justify="space-between" gap="2" mb="1">
                <${TextLink} to=${pageLink("pipeline-dead-letters", { pipeline: pipeline.id, node: node.id, group: each.fingerprint })}>
                  ${plural(each.count, "dead letter")}: ${each.error}
                <//>
                <${Text} color="fg.muted" flexShrink="0" title=${time(each.last_failed_at)}>${ago(each.last_failed_at)}<//>
              <//>
              <${Text} wordBreak="break-word" lineClamp="3">${each.message}<//>
            <//>
          `)}
          ${data.groups.length > MOST_ERRORS ? html`<${Text} fontSize="xs" color="fg.muted">and ${plural(data.groups.length - MOST_ERRORS, "other reason")}<//>` : null}
        <//>`}
      <//>
    <//>
  `;
}

function LastRanges({ pipeline, topic }) {
  const query = useQuery(path`pipelines/${pipeline.id}/ledger/entries`, { query: { topic, limit: 5 }, every: 10 });
  return html`
    <${Section} title="Last ranges">
      <${Answer} query=${query} rows=${2} empty=${{ when: (data) => !data.page.entries.length, title: "Nothing was drained yet" }}>
        ${(data) => html`<${Grid} label="Last ranges" rows=${data.page.entries} columns=${[
          { title: "Partition", number: true, cell: (each) => each.partition },
          { title: "Range", number: true, cell: (each) => `${count(each.start)}–${count(each.end)}` },
          { title: "Kind", cell: (each) => html`<${Tag}>${each.kind}<//>` },
        ]} />`}
      <//>
    <//>
  `;
}

function DatasourceFacts({ source, pipeline }) {
  return html`
    <div>
      <${Heading} as="h2" size="md" pr="8">${source.name || source.id}<//>
      <${HStack} gap="2" mt="1" mb="3"><${Tag} tone="green">datasource<//>${source.paused ? html`<${Tag}>paused<//>` : null}<//>
      <${Facts} pairs=${[
        ["Datasource", source.id],
        ["Account", source.account],
        ["Enters at", source.entry],
        ["Topic", html`<${Mono}>${source.topic}<//>`],
        ["Connector", source.connector || "none"],
        ["Schedule", source.schedule || "none"],
        ["Dead letters to", html`<${Mono}>${source.dead_letter_topic}<//>`],
      ]} />
      <${Text} mt="4" fontSize="sm"><${TextLink} to=${pageLink("pipeline-state", { pipeline: pipeline.id })}>Pause or resume it<//><//>
    </div>
  `;
}
