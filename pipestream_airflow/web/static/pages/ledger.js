// Ledger: ranges as a timeline, runs, gaps, and what was drained over time.
import { Chakra, React, html, useEffect, useMemo, useState } from "../lib/react.js";
import { path, useQuery } from "../lib/api.js";
import { ago, count, duration, plural, rate, time } from "../lib/format.js";
import { PipelinePage } from "../lib/choose.js";
import { Answer, Empty, Facts, Figure, Figures, Grid, Mono, Section, Tag, TextLink, Unavailable } from "../lib/parts.js";
import { Plot } from "../lib/plot.js";
import { Timeline } from "../lib/timeline.js";

const { Alert, Box, HStack, NativeSelect, Text } = Chakra;

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
  // To the minute, so that the same question is asked once; the window moves on while the page is open.
  const minute = useMinute();
  const since = useMemo(() => new Date((minute - hours * 60) * 60000).toISOString(), [hours, minute]);
  const topic = values.topic || undefined;
  const ask = { since, topic };
  const entries = useQuery(path`pipelines/${pipeline.id}/ledger/entries`, { query: { ...ask, limit: 500 }, every: 10, keep: true });
  const runs = useQuery(path`pipelines/${pipeline.id}/ledger/runs`, { query: { ...ask, limit: 50 }, every: 10, keep: true });
  const gaps = useQuery(path`pipelines/${pipeline.id}/ledger/gaps`, { every: 30 });
  const series = useQuery(path`pipelines/${pipeline.id}/ledger/series`, { query: { ...ask, points: 60 }, every: 15, keep: true });
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
      <${Series} query=${series} binSeconds=${(hours * 3600) / 60} />
      <${Ranges} query=${entries} />
      <${Runs} query=${runs} dag=${pipeline.dag_id} />
    <//>
  `;
}

/** Minutes since 1970. */
function useMinute() {
  const now = () => Math.floor(Date.now() / 60000);
  const [minute, setMinute] = useState(now);
  useEffect(() => {
    const timer = setInterval(() => setMinute(now()), 20000);
    return () => clearInterval(timer);
  }, []);
  return minute;
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

function Totals({ runs }) {
  const totals = runs.data?.totals;
  if (!totals?.runs) return null;
  return html`
    <${Figures}>
      <${Figure} label="Runs of tasks" value=${count(totals.runs)} hint="A task of a DAG drains one topic" />
      <${Figure} label="Ranges" value=${count(totals.ranges)} />
      <${Figure} label="Records" value=${count(totals.records)} testId="records" />
      <${Figure} label="Pace while draining" value=${totals.seconds ? rate(totals.records / totals.seconds) : "–"} />
      <${Figure} label="Recovered ranges" value=${count(totals.recovered)} hint="Drained by a run that died before it could record them" />
      <${Figure} label="Dead letters written" value=${count(totals.dead_letters)} />
    <//>
  `;
}

function Series({ query, binSeconds }) {
  const plots = query.data?.plots;
  const records = useMemo(() => {
    const own = plots?.series.map((each) => ({ label: each.topic, values: each.records })) ?? [];
    return plots?.others ? [...own, { label: "all other topics", values: plots.others.records, isRest: true }] : own;
  }, [plots]);
  const backlog = useMemo(
    () => plots?.series.filter((each) => each.backlog).map((each) => ({ label: each.topic, values: each.backlog })) ?? [],
    [plots],
  );
  return html`
    <${Answer} query=${query} rows=${3}>
      ${(data) => html`
        <div>
          <${Unavailable} parts=${data.unavailable} />
          <${Section} title=${`Records drained, per ${duration(binSeconds)}`}>
            ${hasValues(records)
              ? html`<${Plot} label="Records drained over time, by topic" times=${data.plots.times} series=${records} bars />`
              : html`<${Empty} title="Nothing was drained in this time" />`}
          <//>
          ${backlog.length
            ? html`<${Section} title="Records that waited">
                ${hasValues(backlog)
                  ? html`<${Plot} label="Records that waited over time, by topic" times=${data.plots.times} series=${backlog} />`
                  : html`<${Text} fontSize="sm" color="fg.muted">None, at the end of any ${duration(binSeconds)}.<//>`}
              <//>`
            : null}
        </div>
      `}
    <//>
  `;
}

const hasValues = (series) => series.some((each) => each.values.some(Boolean));

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
      ["Run", html`<${RunName} id=${entry.run_id} dag=${`pipestream_${entry.graph_id}`} />`],
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

// Airflow's tasks name their runs DAG/RUN/TASK, and after a clearing DAG/RUN/TASK/NUMBER.
const OF_AIRFLOW = /^([^/]+)\/(.+?)\/([^/]+?)(\/\d+)?$/;

/** A run of the ledger; one of Airflow links to its task. */
function RunName({ id, dag }) {
  const [, itsDag, run, task] = OF_AIRFLOW.exec(id) ?? [];
  if (itsDag !== dag) return html`<${Mono}>${id}<//>`;
  return html`<${TextLink} to=${`/dags/${dag}/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(task)}`} title=${id}><${Mono}>${run.replace(/\.\d+/, "")}<//><//>`;
}

function Runs({ query, dag }) {
  return html`
    <${Section} title="Newest runs of tasks">
      <${Answer} query=${query} rows=${3} empty=${{ when: (data) => !data.runs.length, title: "No run recorded anything in this time" }}>
        ${(data) => html`<${Grid} label="Runs" rows=${data.runs} rowKey=${(each) => each.run_id + each.lane} columns=${[
          { title: "Recorded", cell: (each) => html`<span title=${time(each.last_entry_at)}>${ago(each.last_entry_at)}</span>` },
          { title: "Topic", wrap: "narrow", cell: (each) => each.topics.length === 1
              ? html`<${Mono}>${each.topics[0]}<//>`
              : html`<span title=${each.topics.join("\n")}>${plural(each.topics.length, "topic")}</span>` },
          { title: "Run", wrap: "narrow", cell: (each) => html`<${RunName} id=${each.run_id} dag=${dag} />` },
          { title: "Records", number: true, cell: (each) => count(each.records) },
          { title: "Dead letters", number: true, cell: (each) => count(each.dead_letters) },
          { title: "Took", number: true, cell: (each) => duration(each.seconds) },
          { title: "Ranges", number: true, cell: (each) => count(each.ranges) },
          { title: "Recovered", number: true, cell: (each) => count(each.recovered) },
        ]} />`}
      <//>
    <//>
  `;
}
