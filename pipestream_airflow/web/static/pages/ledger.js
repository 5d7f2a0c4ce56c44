// Ledger: ranges as a timeline, runs, gaps, and what was drained over time.
import { Chakra, React, html, useMemo, useState } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { count, duration, plural, rate, time } from "../lib/format.js";
import { PipelinePage } from "../lib/choose.js";
import { Answer, Facts, Figure, Figures, Grid, Mono, Section, Tag, Unavailable } from "../lib/parts.js";
import { Plot } from "../lib/plot.js";
import { Timeline } from "../lib/timeline.js";

const { Alert, Box, HStack, NativeSelect } = Chakra;

const WINDOWS = { "1 hour": 1, "6 hours": 6, "1 day": 24, "7 days": 168, "30 days": 720 };

export function LedgerPage() {
  return html`
    <${PipelinePage} route="pipeline-ledger" title="Ledger">
      ${(pipeline, values, set) => html`<${PipelineLedger} key=${pipeline.id} pipeline=${pipeline} values=${values} set=${set} />`}
    <//>
  `;
}

function PipelineLedger({ pipeline, values, set }) {
  const hours = WINDOWS[values.window] ?? 24;
  // Fixed for as long as the window is chosen, to the minute: the same question is asked once.
  const since = useMemo(() => new Date(Math.floor(Date.now() / 60000) * 60000 - hours * 3600000).toISOString(), [hours]);
  const topic = values.topic || undefined;
  const ask = { since, topic };
  const entries = useQuery(path`pipelines/${pipeline.id}/ledger/entries`, { query: { ...ask, limit: 500 }, every: 10 });
  const runs = useQuery(path`pipelines/${pipeline.id}/ledger/runs`, { query: { ...ask, limit: 50 }, every: 10 });
  const gaps = useQuery(path`pipelines/${pipeline.id}/ledger/gaps`, { every: 30 });
  const series = useQuery(path`pipelines/${pipeline.id}/ledger/series`, { query: { ...ask, points: 60 }, every: 15 });
  const state = useQuery(path`pipelines/${pipeline.id}/state`);
  return html`
    <${React.Fragment}>
      <${HStack} gap="3" mb="4" wrap="wrap">
        <${Choice} label="Time" value=${values.window ?? "1 day"} options=${Object.keys(WINDOWS)} onChange=${(window) => set({ window })} />
        <${Choice} label="Topic" value=${topic ?? ""} options=${["", ...(state.data?.topics ?? []).map((each) => each.topic)]} empty="all topics"
          onChange=${(value) => set({ topic: value })} />
      <//>
      <${Gaps} query=${gaps} />
      <${Totals} runs=${runs} />
      <${Series} query=${series} />
      <${Ranges} query=${entries} />
      <${Runs} query=${runs} />
    <//>
  `;
}

function Choice({ label, value, options, empty, onChange }) {
  return html`
    <${NativeSelect.Root} size="sm" width="auto" maxWidth="100%">
      <${NativeSelect.Field} aria-label=${label} value=${value} onChange=${(event) => onChange(event.target.value)}>
        ${options.map((each) => html`<option key=${each} value=${each}>${each || empty}</option>`)}
      <//>
      <${NativeSelect.Indicator} />
    <//>
  `;
}

function Gaps({ query }) {
  return html`
    <${Answer} query=${query} rows=${1}>
      ${(data) =>
        data.faults.length
          ? html`
              <${Alert.Root} status="error" mb="4"><${Alert.Indicator} />
                <${Alert.Content}>
                  <${Alert.Title}>${plural(data.faults.length, "fault")} in the ledger<//>
                  <${Alert.Description}>
                    ${data.faults.map((each, index) => html`<div key=${index}><${Mono}>${each.topic} [${each.partition}]<//> ${each.kind}: ${each.message}</div>`)}
                  <//>
                <//>
              <//>
            `
          : html`<${Alert.Root} status="success" mb="4" data-testid="complete"><${Alert.Indicator} /><${Alert.Title}>Complete: the ranges join without gap or overlap<//><//>`}
    <//>
  `;
}

const sum = (rows, value) => rows.reduce((total, row) => total + (value(row) ?? 0), 0);

function Totals({ runs }) {
  const rows = runs.data?.runs ?? [];
  if (!rows.length) return null;
  const seconds = sum(rows, (each) => each.seconds);
  const records = sum(rows, (each) => each.records);
  return html`
    <${Figures}>
      <${Figure} label="Runs" value=${count(rows.length)} />
      <${Figure} label="Ranges" value=${count(sum(rows, (each) => each.ranges))} />
      <${Figure} label="Records" value=${count(records)} testId="records" />
      <${Figure} label="Pace while draining" value=${seconds ? rate(records / seconds) : "–"} />
      <${Figure} label="Recovered ranges" value=${count(sum(rows, (each) => each.recovered))} />
      <${Figure} label="Dead letters" value=${count(sum(rows, (each) => each.dead_letters))} />
    <//>
  `;
}

function Series({ query }) {
  const plots = query.data?.plots;
  const records = useMemo(() => plots?.series.map((each) => ({ label: each.topic, values: each.records })) ?? [], [plots]);
  const backlog = useMemo(
    () => plots?.series.filter((each) => each.backlog).map((each) => ({ label: each.topic, values: each.backlog })) ?? [],
    [plots],
  );
  return html`
    <${Answer} query=${query} rows=${3}>
      ${(data) => html`
        <div>
          <${Unavailable} parts=${data.unavailable} />
          <${Section} title="Records drained"><${Plot} label="Records drained over time, by topic" times=${data.plots.times} series=${records} /><//>
          ${backlog.length ? html`<${Section} title="Backlog"><${Plot} label="Records that waited over time, by topic" times=${data.plots.times} series=${backlog} /><//>` : null}
        </div>
      `}
    <//>
  `;
}

function Ranges({ query }) {
  const [chosen, setChosen] = useState(null);
  return html`
    <${Section} title="Ranges">
      <${Answer} query=${query} rows=${3} empty=${{ when: (data) => !data.page.entries.length, title: "No range was recorded in this time" }}>
        ${(data) => html`
          <div>
            <${Timeline} entries=${data.page.entries} onChoose=${setChosen} />
            ${data.page.total > data.page.entries.length
              ? html`<${Box} fontSize="xs" color="fg.muted" mt="1">The newest ${count(data.page.entries.length)} of ${count(data.page.total)} ranges. Choose a topic or a shorter time for the others.<//>`
              : null}
            ${chosen ? html`<${Box} mt="3" p="3" borderWidth="1px" borderRadius="md" aria-live="polite"><${Entry} entry=${chosen} /><//>` : null}
          </div>
        `}
      <//>
    <//>
  `;
}

function Entry({ entry }) {
  return html`
    <${Facts} pairs=${[
      ["Topic", html`<${Mono}>${entry.topic} [${entry.partition}]<//>`],
      ["Range", `${count(entry.start)} to ${count(entry.end)}`],
      ["Kind", html`<${Tag}>${entry.kind}<//>`],
      ["Run", html`<${Mono}>${entry.run_id}<//>`],
      ["Records", count(entry.records)],
      ["Out, by edge", Object.entries(entry.documents_out ?? {}).map(([edge, number]) => `${edge} ${count(number)}`).join(", ") || "none"],
      ["Dead letters", count(entry.dead_letters)],
      ["Took", duration(entry.seconds)],
      ["Holder", html`<${Mono}>${entry.holder}<//>`],
      ["Fencing token", count(entry.token)],
      ["Graph", html`<${Mono}>${entry.graph_hash?.slice(0, 12)}<//>`],
      ["Recorded", time(entry.entered_at)],
    ]} />
  `;
}

function Runs({ query }) {
  return html`
    <${Section} title="Runs">
      <${Answer} query=${query} rows=${3} empty=${{ when: (data) => !data.runs.length, title: "No run recorded anything in this time" }}>
        ${(data) => html`<${Grid} label="Runs" rows=${data.runs} rowKey=${(each) => each.run_id + each.lane} columns=${[
          { title: "Run", cell: (each) => html`<${Mono} wordBreak="normal">${each.run_id}<//>` },
          { title: "Last range", cell: (each) => time(each.last_entry_at) },
          { title: "Topics", number: true, cell: (each) => html`<span title=${each.topics.join("\n")}>${count(each.topics.length)}</span>` },
          { title: "Ranges", number: true, cell: (each) => count(each.ranges) },
          { title: "Recovered", number: true, cell: (each) => count(each.recovered) },
          { title: "Records", number: true, cell: (each) => count(each.records) },
          { title: "Dead letters", number: true, cell: (each) => count(each.dead_letters) },
          { title: "Seconds", number: true, cell: (each) => each.seconds.toFixed(1) },
        ]} />`}
      <//>
    <//>
  `;
}
