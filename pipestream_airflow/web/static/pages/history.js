// The versions of a graph: what was applied when, what differs, and the way back.
import { Chakra, React, html, useState } from "../lib/react.js";
import { call, path, useAction, useQuery } from "../lib/api.js";
import { ago, time } from "../lib/format.js";
import { Answer, Done, Failure, Grid, Mono, Section, Tag } from "../lib/parts.js";
import { Changes } from "../lib/changes.js";
import { Confirm } from "../lib/confirm.js";

const { Button, Checkbox, HStack, NativeSelect, Stack, Text } = Chakra;

/** @param active the active version. @param file the graph's file, from which Airflow makes the DAG; null: none. */
export function History({ id, active, file, onChanged }) {
  const query = useQuery(path`pipelines/${id}/history`);
  const [asked, setAsked] = useState(null);
  const [writeFile, setWriteFile] = useState(true);
  const rollback = useAction(async (version) => {
    const done = await call("POST", path`pipelines/${id}/rollback`, {
      body: { version, base_version: active ?? 0 },
      query: { write_file: file && writeFile ? true : undefined },
    });
    setAsked(null);
    await Promise.all([query.reload(), onChanged()]);
    return done;
  });
  return html`
    <${React.Fragment}>
      <${Answer} query=${query} empty=${{ when: (data) => !data.length, title: "The graph was never applied" }}>
        ${(data) => html`
          <div>
            <${Section} title="Versions">
              <${Grid} label="Versions" rows=${data} rowKey=${(each) => each.version} columns=${[
                { title: "Version", number: true, cell: (each) => html`<${HStack} justify="end" gap="2">${each.version === active ? html`<${Tag} tone="green">active<//>` : null}${each.version}<//>` },
                { title: "Applied", cell: (each) => html`<span title=${time(each.applied_at)}>${ago(each.applied_at)}</span>` },
                { title: "By", cell: (each) => each.applied_by },
                { title: "Hash", cell: (each) => html`<${Mono}>${(each.hash ?? "").slice(0, 12)}<//>` },
                { title: "", cell: (each) => each.version === active ? null : html`<${Button} size="xs" variant="outline" onClick=${() => { rollback.reset(); setAsked(each.version); }}>Roll back to this<//>` },
              ]} />
              ${rollback.done
                ? html`<${Done} testId="rolled-back" warnings=${rollback.done.warnings}
                    title=${`Version ${rollback.done.version} is active again${rollback.done.file ? `, and ${rollback.done.file} is written` : ""}`} />`
                : null}
            <//>
            ${data.length > 1 ? html`<${Diff} id=${id} versions=${data.map((each) => each.version)} />` : null}
          </div>
        `}
      <//>
      ${asked === null
        ? null
        : html`
            <${Confirm} open title=${`Roll back to version ${asked}?`} busy=${rollback.busy} verb="Roll back"
              onCancel=${() => { setAsked(null); rollback.reset(); }} onConfirm=${() => rollback.run(asked)}>
              <${Stack} gap="3">
                <${Text} fontSize="sm">Version ${asked} becomes the active one again. Topics that it needs are created. Documents that are on their way continue with it.<//>
                ${file
                  ? html`
                      <${Checkbox.Root} size="sm" checked=${writeFile} onCheckedChange=${(change) => setWriteFile(Boolean(change.checked))}>
                        <${Checkbox.HiddenInput} /><${Checkbox.Control} />
                        <${Checkbox.Label}>Write ${file.name} too, which Airflow's runs use. Its comments are lost.<//>
                      <//>
                    `
                  : null}
                ${rollback.error ? html`<${Failure} title="Nothing was changed" error=${rollback.error} />` : null}
              <//>
            <//>
          `}
    <//>
  `;
}

function Diff({ id, versions }) {
  const [from, setFrom] = useState(versions[1]);
  const [to, setTo] = useState(versions[0]);
  const query = useQuery(path`pipelines/${id}/diff`, { query: { from, to } });
  const pick = (label, value, set) => html`
    <${NativeSelect.Root} size="xs" width="auto">
      <${NativeSelect.Field} aria-label=${label} value=${value} onChange=${(event) => set(Number(event.target.value))}>
        ${versions.map((each) => html`<option key=${each} value=${each}>version ${each}</option>`)}
      <//>
      <${NativeSelect.Indicator} />
    <//>
  `;
  return html`
    <${Section} title="What differs" actions=${html`<${HStack}>${pick("From", from, setFrom)}<${Text}>→<//>${pick("To", to, setTo)}<//>`}>
      <${Answer} query=${query}>${(data) => html`<${Changes} changes=${data} />`}<//>
    <//>
  `;
}

