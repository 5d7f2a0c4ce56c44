// Start a run of a pipeline's DAG, or a backfill of it, through Airflow's own API: its rights and its audit log apply.
import { Chakra, Router, html, useEffect, useState } from "../lib/react.js";
import { callAirflow, path, useAction } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Confirm } from "../lib/confirm.js";
import { Failure, TextLink } from "../lib/parts.js";

const { Alert, Box, Button, Checkbox, Field, Input, NativeSelect, SimpleGrid, Stack, Text } = Chakra;

/** @param dag the id of the pipeline's DAG. */
export function RunButtons({ dag }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  return html`
    <${Button} size="xs" onClick=${() => setOpen("run")}>Run now<//>
    <${Button} size="xs" variant="outline" onClick=${() => setOpen("backfill")}>Backfill<//>
    ${open === "run" ? html`<${RunDialog} dag=${dag} onClose=${close} />` : null}
    ${open === "backfill" ? html`<${BackfillDialog} dag=${dag} onClose=${close} />` : null}
  `;
}

/** Whether the DAG is there, and paused. A run of a paused DAG waits until somebody unpauses it. */
function useDag(dag) {
  const state = useAction(async () => callAirflow("GET", path`dags/${dag}`));
  useEffect(() => {
    state.run();
  }, [dag]);
  return state;
}

function DagNotice({ state, unpause, onUnpause }) {
  if (state.error?.status === 404) {
    return html`<${Failure} title="Airflow has no DAG of this pipeline yet" error=${{ message: "It makes the DAG from the graph's file. Apply the graph with its file, and wait until Airflow has read it." }} />`;
  }
  if (state.error) return html`<${Failure} title="Airflow did not say how the DAG is" error=${state.error} />`;
  if (!state.done?.is_paused) return null;
  return html`
    <${Alert.Root} status="warning" size="sm">
      <${Alert.Indicator} />
      <${Alert.Content}>
        <${Alert.Title}>The DAG is paused: nothing runs until it is unpaused<//>
        <${Checkbox.Root} size="sm" mt="1" checked=${unpause} onCheckedChange=${(change) => onUnpause(Boolean(change.checked))}>
          <${Checkbox.HiddenInput} /><${Checkbox.Control} /><${Checkbox.Label}>Unpause it<//>
        <//>
      <//>
    <//>
  `;
}

const unpaused = (dag) => callAirflow("PATCH", path`dags/${dag}`, { body: { is_paused: false } });

function RunDialog({ dag, onClose }) {
  const [unpause, setUnpause] = useState(true);
  const state = useDag(dag);
  const start = useAction(async () => {
    if (unpause && state.done?.is_paused) await unpaused(dag);
    return callAirflow("POST", path`dags/${dag}/dagRuns`, { body: { logical_date: null } });
  });
  const run = start.done;
  return html`
    <${Confirm} open title="Run this pipeline now" verb="Run" busy=${start.busy} isDone=${Boolean(run)} isOff=${!state.done} onConfirm=${() => start.run()} onCancel=${onClose}>
      <${Stack} gap="3">
        <${Text} fontSize="sm">Drains what waits in its topics, as its schedule would. The <${TextLink} to=${`/dags/${dag}`}>page of its DAG<//> has Airflow's own button Trigger, whose form has the other modes: a time or offsets of the past, single documents, dead letters, a dry run.<//>
        <${DagNotice} state=${state} unpause=${unpause} onUnpause=${setUnpause} />
        ${start.error ? html`<${Failure} title="The run was not started" error=${start.error} />` : null}
        ${run ? html`<${Done} text="The run is queued." to=${`/dags/${dag}/runs/${encodeURIComponent(run.dag_run_id)}`} link="See the run" />` : null}
      <//>
    <//>
  `;
}

const Done = ({ text, to, link }) => html`
  <${Alert.Root} status="success" data-testid="started">
    <${Alert.Indicator} />
    <${Alert.Title}>${text} <${Box} as=${Router.Link} to=${to} textDecoration="underline">${link}<//><//>
  <//>
`;

const DAY_MS = 86_400_000;
const minute = (at) => new Date(at).toISOString().slice(0, 16);
const BEHAVIOURS = { none: "leave them as they are", failed: "run the failed ones again", completed: "run all of them again" };

function BackfillDialog({ dag, onClose }) {
  const [values, setValues] = useState(() => ({ from: minute(Date.now() - DAY_MS), to: minute(Date.now()), runs: 1, behaviour: "none" }));
  const [unpause, setUnpause] = useState(true);
  const state = useDag(dag);
  const set = (changes) => {
    setValues((before) => ({ ...before, ...changes }));
    preview.reset();
  };
  const body = () => ({
    dag_id: dag,
    from_date: `${values.from}:00Z`,
    to_date: `${values.to}:00Z`,
    reprocess_behavior: values.behaviour,
    max_active_runs: values.runs,
  });
  const preview = useAction(async () => callAirflow("POST", "backfills/dry_run", { body: body() }));
  const create = useAction(async () => {
    if (unpause && state.done?.is_paused) await unpaused(dag);
    return callAirflow("POST", "backfills", { body: body() });
  });
  const isOff = !state.done || !values.from || !values.to || values.from >= values.to;
  return html`
    <${Confirm} open title="Drain a time in the past again" verb="Create the backfill" busy=${create.busy} isDone=${Boolean(create.done)} isOff=${isOff}
      onConfirm=${() => create.run()} onCancel=${onClose}>
      <${Stack} gap="3">
        <${Text} fontSize="sm">One run for each interval of the schedule. Each drains the records of its interval again, in a lane of its own: what live runs have drained stays as it is.<//>
        <${SimpleGrid} columns=${{ base: 1, sm: 2 }} gap="3">
          <${Labelled} label="From (UTC)"><${Input} size="sm" type="datetime-local" value=${values.from} onChange=${(event) => set({ from: event.target.value })} /><//>
          <${Labelled} label="To (UTC)"><${Input} size="sm" type="datetime-local" value=${values.to} onChange=${(event) => set({ to: event.target.value })} /><//>
          <${Labelled} label="Runs at once"><${Input} size="sm" type="number" min="1" max="50" value=${values.runs} onChange=${(event) => set({ runs: Math.max(1, Number(event.target.value) || 1) })} /><//>
          <${Labelled} label="Intervals that have a run">
            <${NativeSelect.Root} size="sm">
              <${NativeSelect.Field} value=${values.behaviour} onChange=${(event) => set({ behaviour: event.target.value })}>
                ${Object.entries(BEHAVIOURS).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
              <//>
              <${NativeSelect.Indicator} />
            <//>
          <//>
        <//>
        <${DagNotice} state=${state} unpause=${unpause} onUnpause=${setUnpause} />
        <${Box} aria-live="polite">
          <${Button} size="xs" variant="outline" loading=${preview.busy} disabled=${isOff} onClick=${() => preview.run()}>How many runs<//>
          ${preview.done ? html`<${Text} as="span" ml="3" fontSize="sm" data-testid="backfill-runs">${plural(preview.done.total_entries, "run")}<//>` : null}
          ${preview.error ? html`<${Failure} error=${preview.error} />` : null}
        <//>
        ${create.error ? html`<${Failure} title="The backfill was not created" error=${create.error} />` : null}
        ${create.done ? html`<${Done} text="The backfill is created." to=${`/dags/${dag}/backfills`} link="See its runs" />` : null}
      <//>
    <//>
  `;
}

const Labelled = ({ label, children }) => html`<${Field.Root}><${Field.Label} fontSize="xs">${label}<//>${children}<//>`;
