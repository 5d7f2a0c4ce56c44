// State: what is wanted of a pipeline and of its topics, who holds which slot, which datasources are paused.
import { Chakra, React, html, useState } from "../lib/react.js";
import { call, path, useAction, useQuery } from "../lib/api.js";
import { ago, count, time } from "../lib/format.js";
import { PipelinePage } from "../lib/choose.js";
import { Answer, Done, Empty, Failure, Grid, Mono, Section, Tag } from "../lib/parts.js";

const { Alert, Box, Button, Field, Flex, HStack, Input, NativeSelect, Switch, Text } = Chakra;

export function StatePage() {
  return html`
    <${PipelinePage} route="pipeline-state" title="State">
      ${(pipeline) => html`<${PipelineState} key=${pipeline.id} pipeline=${pipeline} />`}
    <//>
  `;
}

function PipelineState({ pipeline }) {
  const state = useQuery(path`pipelines/${pipeline.id}/state`, { every: 5 });
  const assignments = useQuery(path`pipelines/${pipeline.id}/assignments`, { every: 5 });
  const change = useAction(async (body) => {
    await call("PATCH", path`pipelines/${pipeline.id}/state`, { body });
    await Promise.all([state.reload(), assignments.reload()]);
  });
  return html`
    <${React.Fragment}>
      <${Answer} query=${state}>
        ${(data) => html`
          <div>
            ${data.notice ? html`<${Banner} text=${data.notice} />` : null}
            ${change.error ? html`<${Failure} title="Nothing was changed" error=${change.error} />` : null}
            <${Section} title="The whole pipeline">
              <${Controls} label="all topics" state=${data} disabled=${!data.replicas_apply} busy=${change.busy} onChange=${(body) => change.run(body)} />
              <${Text} fontSize="xs" color="fg.muted" mt="2">
                A topic is drained by as many runs at once as it has replicas. In batch mode, runs of the DAG drain it; in streaming mode, a process
                that is always on.
              <//>
            <//>
            <${Section} title="Topics">
              <${Grid} label="Topics" rows=${data.topics} rowKey=${(each) => each.topic} columns=${[
                { title: "Topic", wrap: "narrow", cell: (each) => html`<${Mono}>${each.topic}<//>` },
                { title: "Node", cell: (each) => each.node },
                { title: "State", cell: (each) => html`<${Tag}>${each.desired}<//>` },
                { title: "Replicas", number: true, cell: (each) => html`<span data-replicas=${each.topic}>${count(each.replicas)}</span>` },
                { title: "Mode", cell: (each) => each.mode },
                { title: "", cell: (each) => html`
                    <${Button} size="xs" variant="outline" disabled=${!data.replicas_apply || change.busy}
                      onClick=${() => change.run({ desired: each.desired === "started" ? "stopped" : "started", topics: [each.topic] })}>
                      ${each.desired === "started" ? "Stop" : "Start"}
                    <//>` },
              ]} />
            <//>
            <${Datasources} pipeline=${pipeline} datasources=${data.datasources} onChanged=${state.reload} />
          </div>
        `}
      <//>
      <${Section} title="Assignments">
        <${Answer} query=${assignments} empty=${{
          when: (data) => !data.assignments.length,
          title: "Nobody holds a slot",
          hint: "A run holds the slots of a topic while it drains it.",
        }}>
          ${(data) => html`<${Grid} label="Assignments" rows=${data.assignments} rowKey=${(each) => `${each.topic}/${each.slot}/${each.backfill}`} columns=${[
            { title: "Topic", wrap: "narrow", cell: (each) => html`<${Mono}>${each.topic}<//>` },
            { title: "Slot", number: true, cell: (each) => each.slot },
            { title: "Holder", wrap: "narrow", cell: (each) => (each.holder ? html`<${Mono}>${each.holder}<//>` : html`<${Text} color="fg.muted">free<//>`) },
            { title: "Until", cell: (each) => (each.until ? html`<span title=${time(each.until)}>${ago(each.until)}</span>` : "–") },
            { title: "Fencing token", number: true, cell: (each) => (each.token ? count(each.token) : "–") },
            { title: "Backfill", cell: (each) => each.backfill || "–" },
          ]} />`}
        <//>
      <//>
    <//>
  `;
}

function Banner({ text }) {
  return html`
    <${Alert.Root} status="warning" mb="4" data-testid="no-leases">
      <${Alert.Indicator} />
      <${Alert.Content}><${Alert.Title}>Leases are off<//><${Alert.Description}>${text}<//><//>
    <//>
  `;
}

function Controls({ label, state, disabled, busy, onChange }) {
  const [replicas, setReplicas] = useState(null);
  const shown = replicas ?? (state.replicas ?? "");
  const isStarted = state.desired === "started";
  const isValid = Number.isInteger(Number(shown)) && Number(shown) >= 1;
  return html`
    <${Flex} gap="6" wrap="wrap" align="end" rowGap="4">
      <${Box}>
        <${Text} fontSize="xs" color="fg.muted" mb="1">State<//>
        <${HStack} gap="2"><${Tag}>${state.desired}<//>
          <${Button} size="sm" variant="outline" disabled=${disabled || busy} onClick=${() => onChange({ desired: isStarted ? "stopped" : "started" })}>
            ${isStarted ? "Stop" : "Start"} ${label}
          <//>
        <//>
      <//>
      <${Box} as="form" onSubmit=${async (event) => { event.preventDefault(); await onChange({ replicas: Number(shown) }); setReplicas(null); }}>
        <${Field.Root} invalid=${replicas !== null && !isValid}>
          <${Field.Label} fontSize="xs" color="fg.muted" mb="-0.5">Replicas<//>
          <${HStack} gap="2">
            <${Input} size="sm" type="number" min="1" max="1024" width="90px" className="ps-number" disabled=${disabled} value=${shown} placeholder="mixed"
              onChange=${(event) => setReplicas(event.target.value)} />
            <${Button} type="submit" size="sm" disabled=${disabled || busy || replicas === null || !isValid}>Set<//>
          <//>
        <//>
      <//>
      <${Box}>
        <${Text} as="label" htmlFor="ps-mode" fontSize="xs" color="fg.muted" display="block" mb="1">Mode<//>
        <${NativeSelect.Root} size="sm" width="140px" disabled=${disabled || busy}>
          <${NativeSelect.Field} id="ps-mode" value=${state.mode} onChange=${(event) => onChange({ mode: event.target.value })}>
            ${state.mode === "mixed" ? html`<option value="mixed" disabled>mixed</option>` : null}
            <option value="batch">batch</option>
            <option value="streaming">streaming</option>
          <//>
          <${NativeSelect.Indicator} />
        <//>
      <//>
    <//>
  `;
}

function Datasources({ pipeline, datasources, onChanged }) {
  const detail = useQuery(path`pipelines/${pipeline.id}`);
  const change = useAction(async (id, paused) => {
    const body = { paused, base_version: detail.data?.pipeline.version ?? pipeline.version };
    const done = await call("PATCH", path`pipelines/${pipeline.id}/datasources/${id}`, { body, query: { write_file: true } });
    await Promise.all([detail.reload(), onChanged()]);
    return { ...done, what: `${id} is ${paused ? "paused" : "started"} in version ${done.version}` };
  });
  return html`
    <${Section} title="Datasources">
      ${change.error ? html`<${Failure} title="The datasource was not changed" error=${change.error} />` : null}
      ${change.done
        ? html`<${Done} testId="datasource-changed" warnings=${change.done.warnings}
            title=${change.done.what + (change.done.file ? `, and ${change.done.file} is written` : "")} />`
        : null}
      ${datasources.length
        ? html`<${Grid} label="Datasources" rows=${datasources} rowKey=${(each) => each.id} columns=${[
            { title: "Datasource", cell: (each) => each.id },
            { title: "State", cell: (each) => html`<${Tag}>${each.paused ? "paused" : "started"}<//>` },
            { title: "Takes documents", cell: (each) => html`
                <${Switch.Root} size="sm" checked=${!each.paused} disabled=${change.busy} onCheckedChange=${(event) => change.run(each.id, !event.checked)}>
                  <${Switch.HiddenInput} aria-label=${`${each.id} takes documents`} /><${Switch.Control} />
                <//>` },
          ]} />`
        : html`<${Empty} title="The graph has no datasource" />`}
      <${Text} fontSize="xs" color="fg.muted" mt="2">Pausing changes the graph, as a new version, and its file. Runs obey both.<//>
    <//>
  `;
}
