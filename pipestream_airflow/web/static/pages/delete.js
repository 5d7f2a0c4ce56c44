// Delete a pipeline, after a question that says what stays.
import { Chakra, React, html, useState } from "../lib/react.js";
import { call, path, useAction } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Confirm } from "../lib/confirm.js";
import { Failure } from "../lib/parts.js";

const { Button, Checkbox, Stack, Text } = Chakra;

export function DeleteButton({ pipeline, onDeleted }) {
  const [isAsked, setAsked] = useState(false);
  const [leaveBehind, setLeaveBehind] = useState(false);
  const [deleteFile, setDeleteFile] = useState(true);
  const remove = useAction(async () => {
    const query = {
      base_version: pipeline.version,
      leave_behind: leaveBehind || undefined,
      delete_file: pipeline.file && deleteFile ? true : undefined,
    };
    const done = await call("DELETE", path`pipelines/${pipeline.id}`, { query });
    setAsked(false);
    onDeleted();
    return done;
  });
  const box = (label, value, set) => html`
    <${Checkbox.Root} size="sm" checked=${value} onCheckedChange=${(change) => set(Boolean(change.checked))}>
      <${Checkbox.HiddenInput} /><${Checkbox.Control} /><${Checkbox.Label}>${label}<//>
    <//>
  `;
  const left = [
    pipeline.waiting ? plural(pipeline.waiting, "record") : "",
    pipeline.dead_letters ? plural(pipeline.dead_letters, "dead letter") : "",
  ].filter(Boolean);
  return html`
    <${React.Fragment}>
      <${Button} size="xs" variant="outline" colorPalette="red" onClick=${() => setAsked(true)}>Delete<//>
      <${Confirm} open=${isAsked} title=${`Delete ${pipeline.title}?`} verb="Delete" tone="red" busy=${remove.busy}
        onCancel=${() => { setAsked(false); remove.reset(); }} onConfirm=${() => remove.run()}>
        <${Stack} gap="3">
          <${Text} fontSize="sm">
            It must be stopped. Its topics and what they hold, its ledger, its documents and all its versions stay: applied again, it continues
            where it stopped.
          <//>
          ${box(left.length ? `Leave ${left.join(" and ")} behind, in their topics` : "Leave behind what waits, in its topics", leaveBehind, setLeaveBehind)}
          ${pipeline.file ? box(`Delete ${pipeline.file.name} too, from which Airflow makes the DAG`, deleteFile, setDeleteFile) : null}
          ${remove.error ? html`<${Failure} title="Nothing was deleted" error=${remove.error} />` : null}
        <//>
      <//>
    <//>
  `;
}
