// The text of a graph: edit, validate with problems at their lines, see what would change, apply.
import { Chakra, html, useEffect, useMemo, useRef, useState } from "../lib/react.js";
import { call, path, useAction } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Changes } from "../lib/changes.js";
import { Facts, Failure } from "../lib/parts.js";
import { Compare } from "./compare.js";

const { Alert, Box, Button, Code, HStack, Stack, Text } = Chakra;

/** @param id the pipeline; undefined for a new one. @param base the version that is edited. */
export function Editor({ id, base, text: initial, onApplied }) {
  const [text, setText] = useState(initial);
  const [problems, setProblems] = useState(null);
  const area = useRef(null);
  const isChanged = text !== initial;

  const validate = useAction(async (signal) => {
    const answer = await call("POST", "pipelines/validate", { text, signal });
    setProblems(answer.problems);
    return answer;
  });
  const preview = useAction(async () => call("POST", path`pipelines/${id}/preview`, { text }));
  const apply = useAction(async () => {
    try {
      // A graph that has only a file was never applied, so there is no version to start from.
      return id && base
        ? await call("PUT", path`pipelines/${id}`, { text, query: { base_version: base, write_file: true } })
        : await call("POST", "pipelines", { text, query: { write_file: true } });
    } catch (error) {
      if (error.problems?.length) setProblems(error.problems);
      throw error;
    }
  });

  // Check what is typed as soon as the typing stops.
  useEffect(() => {
    if (!isChanged && id) return undefined;
    preview.reset();
    const timer = setTimeout(() => validate.run(), 500);
    return () => clearTimeout(timer);
  }, [text]);

  const goTo = (line) => {
    const lines = text.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    area.current.scrollTop = Math.max(0, (line - 6) * 18);
  };

  return html`
    <${Stack} gap="3">
      <${HStack} gap="2" wrap="wrap">
        <${Button} size="sm" variant="outline" loading=${validate.busy} onClick=${() => validate.run()}>Validate<//>
        ${id && base ? html`<${Button} size="sm" variant="outline" loading=${preview.busy} disabled=${!isChanged} onClick=${() => preview.run()}>What would change<//>` : null}
        <${Button} size="sm" loading=${apply.busy} disabled=${(base && !isChanged) || Boolean(problems?.length)}
          onClick=${async () => { const done = await apply.run(); if (done) onApplied?.(done, graphId(text)); }}>Apply<//>
        ${isChanged ? html`<${Button} size="sm" variant="ghost" onClick=${() => { setText(initial); setProblems(null); preview.reset(); apply.reset(); }}>Undo all changes<//>` : null}
      <//>
      <${TextArea} area=${area} text=${text} onText=${setText} problems=${problems ?? []} />
      <${Box} aria-live="polite">
        <${Problems} problems=${problems} onGoTo=${goTo} />
        ${validate.error ? html`<${Failure} title="The text could not be checked" error=${validate.error} />` : null}
        ${preview.error ? html`<${Failure} title="The change could not be worked out" error=${preview.error} />` : null}
        ${preview.done ? html`<${Preview} preview=${preview.done} />` : null}
        ${apply.error ? html`<${Failure} title="The graph was not applied" error=${apply.error} />` : null}
        ${apply.done ? html`<${Alert.Root} status="success"><${Alert.Indicator} /><${Alert.Title}>Applied${apply.done.version ? ` as version ${apply.done.version}` : ""}<//><//>` : null}
      <//>
      ${id && base
        ? html`<${Compare} id=${id} text=${text} disabled=${!isChanged || Boolean(problems?.length)}
            hint=${isChanged ? "Solve the problems first" : "Change the text first"} />`
        : null}
    <//>
  `;
}

export const graphId = (text) => /^graph:\s*["']?([a-z0-9][a-z0-9_-]*)/m.exec(text)?.[1] ?? "";

function Preview({ preview }) {
  return html`
    <${Stack} gap="2" data-testid="preview">
      <${Changes} changes=${preview.changes} />
      <${Facts} pairs=${[
        ["Topics to create", preview.create.join(", ")],
        ["Topics to grow", Object.entries(preview.grow).map(([topic, number]) => `${topic} to ${number} partitions`).join(", ")],
        ["Topics to retire", preview.retire.join(", ")],
        ["Mind", preview.warnings.join("; ")],
      ]} />
    <//>
  `;
}

function TextArea({ area, text, onText, problems }) {
  const gutter = useRef(null);
  const bad = useMemo(() => new Map(problems.map((each) => [each.line, each.message])), [problems]);
  const lines = text.split("\n").length;
  return html`
    <${Box} className="ps-editor" borderWidth="1px" borderRadius="md" bg="bg.panel" overflow="hidden" height=${{ base: "360px", md: "480px" }}>
      <div className="ps-lines" ref=${gutter} aria-hidden="true">
        ${Array.from({ length: lines }, (_, index) => html`
          <div key=${index} className=${bad.has(index + 1) ? "ps-bad" : undefined} data-line=${index + 1} title=${bad.get(index + 1)}>${index + 1}</div>
        `)}
      </div>
      <textarea ref=${area} aria-label="Graph, as YAML" aria-invalid=${problems.length > 0} spellCheck=${false} autoCapitalize="off" autoComplete="off" value=${text}
        onChange=${(event) => onText(event.target.value)}
        onScroll=${(event) => { gutter.current.scrollTop = event.target.scrollTop; }} />
    <//>
  `;
}

/** What is wrong. Further lines show the place in a condition, with a mark below it, so their columns must stay. */
function Message({ text }) {
  const [said, ...place] = text.split("\n");
  return html`
    <${Box} display="inline">
      ${said}
      ${place.length ? html`<${Code} as="pre" display="block" mt="1" p="2" fontSize="xs" overflowX="auto" tabIndex="0" aria-label="Place in the condition">${place.join("\n")}<//>` : null}
    <//>
  `;
}

function Problems({ problems, onGoTo }) {
  if (problems === null) return null;
  if (!problems.length) return html`<${Alert.Root} status="success"><${Alert.Indicator} /><${Alert.Title}>No problems<//><//>`;
  return html`
    <${Box} borderWidth="1px" borderRadius="md" borderColor="red.muted" data-testid="problems">
      <${Text} px="3" py="2" fontWeight="semibold" fontSize="sm" color="red.fg">${plural(problems.length, "problem")}<//>
      <${Stack} as="ul" gap="0" listStyleType="none">
        ${problems.map(
          (each, index) => html`
            <${Box} as="li" key=${index} borderTopWidth="1px" px="3" py="2" fontSize="sm">
              ${each.line
                ? html`<${Button} size="xs" variant="outline" mr="2" onClick=${() => onGoTo(each.line)}>line ${each.line}<//>`
                : null}
              ${each.field ? html`<${Text} as="span" fontFamily="mono" fontSize="xs" color="fg.muted">${each.field}: <//>` : null}
              <${Message} text=${each.message} />
              ${each.hint ? html`<${Text} color="fg.muted" fontSize="xs" mt="1">${each.hint}<//>` : null}
            <//>
          `,
        )}
      <//>
    <//>
  `;
}
