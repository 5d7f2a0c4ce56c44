// The text of a graph: edit, validate with problems at their lines, see what would change, apply.
import { Chakra, html, useEffect, useMemo, useRef, useState } from "../lib/react.js";
import { call, path, useAction } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Changes } from "../lib/changes.js";
import { Done, Facts, Failure } from "../lib/parts.js";
import { Compare } from "./compare.js";

const { Alert, Box, Button, Code, HStack, Stack, Text } = Chakra;

// What was typed and not applied yet, by pipeline: to look at another tab or page must not lose it.
const drafts = new Map();

/**
 * @param id the pipeline; undefined for a new one. @param base the active version. @param text its text.
 * @param file the graph's file, where it differs from the active version: {name, text}.
 */
export function Editor({ id = "", base, text: active, file, onApplied }) {
  const draft = drafts.get(id);
  // What is edited; `isOwn` from our own apply until the page knows of the version that it made.
  const [start, setStart] = useState(draft?.start ?? { base, text: active, isOwn: false });
  const [text, setText] = useState(draft?.text ?? active);
  const [found, setFound] = useState(null);
  const area = useRef(null);
  const latest = useRef(text);
  latest.current = text;
  const isChanged = text !== start.text;
  const isOutdated = Boolean(id) && isChanged && !start.isOwn && start.base !== base;
  const problems = found?.problems ?? [];

  const begin = () => {
    setStart({ base, text: active, isOwn: false });
    setText(active);
    setFound(null);
  };
  const validate = useAction(async (wanted) => {
    const answer = await call("POST", "pipelines/validate", { text: wanted });
    // The answer about an earlier text may come after that about a later one.
    if (latest.current === wanted) setFound(answer);
    return answer;
  });
  const preview = useAction(async () => call("POST", path`pipelines/${id}/preview`, { text }));
  const apply = useAction(async () => {
    try {
      // A graph that has only a file was never applied, so there is no version to start from.
      const done = id && base
        ? await call("PUT", path`pipelines/${id}`, { text, query: { base_version: start.base, write_file: true } })
        : await call("POST", "pipelines", { text, query: { write_file: true } });
      setStart({ base: done.version, text, isOwn: true });
      preview.reset();
      return done;
    } catch (error) {
      if (error.problems?.length) setFound({ problems: error.problems, warnings: [] });
      throw error;
    }
  });

  // Check what is typed as soon as the typing stops.
  useEffect(() => {
    if (!isChanged && id) return undefined;
    preview.reset();
    const timer = setTimeout(() => validate.run(text), 500);
    return () => clearTimeout(timer);
  }, [text]);

  useEffect(() => {
    if (isChanged) drafts.set(id, { start, text });
    else drafts.delete(id);
  }, [id, start, text]);

  // Another version has become active. Nobody's text is replaced while it has changes.
  useEffect(() => {
    if (start.isOwn) {
      if (start.base === base) setStart({ ...start, isOwn: false });
    } else if (!isChanged && (start.base !== base || start.text !== active)) begin();
  }, [base, active, start, isChanged]);

  const goTo = (line) => {
    const lines = text.split("\n");
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
    area.current.scrollTop = Math.max(0, (line - 6) * 18);
  };
  const undo = () => {
    begin();
    preview.reset();
    apply.reset();
  };

  return html`
    <${Stack} gap="3">
      ${isOutdated
        ? html`<${Outdated} base=${base} start=${start} onDrop=${undo} onKeep=${() => setStart({ base, text: active, isOwn: false })} />`
        : file && !isChanged
          ? html`<${FileDiffers} file=${file} base=${base} onLoad=${() => setText(file.text)} />`
          : null}
      <${HStack} gap="2" wrap="wrap">
        <${Button} size="sm" variant="outline" loading=${validate.busy} onClick=${() => validate.run(text)}>Validate<//>
        ${id && base ? html`<${Button} size="sm" variant="outline" loading=${preview.busy} disabled=${!isChanged} onClick=${() => preview.run()}>What would change<//>` : null}
        <${Button} size="sm" loading=${apply.busy} disabled=${(base && !isChanged) || isOutdated || problems.length > 0}
          onClick=${async () => { const done = await apply.run(); if (done) onApplied?.(done, graphId(text)); }}>Apply<//>
        ${isChanged && id ? html`<${Button} size="sm" variant="ghost" onClick=${undo}>Undo all changes<//>` : null}
      <//>
      <${TextArea} area=${area} text=${text} onText=${setText} problems=${problems} />
      <${Stack} gap="3" aria-live="polite">
        ${found ? html`<${Problems} found=${found} onGoTo=${goTo} />` : null}
        ${validate.error ? html`<${Failure} title="The text could not be checked" error=${validate.error} />` : null}
        ${preview.error ? html`<${Failure} title="The change could not be worked out" error=${preview.error} />` : null}
        ${preview.done ? html`<${Preview} preview=${preview.done} />` : null}
        ${apply.error ? html`<${Failure} title="The graph was not applied" error=${apply.error} />` : null}
        ${apply.done && !isChanged ? html`<${Applied} done=${apply.done} />` : null}
      <//>
      ${id && base
        ? html`<${Compare} id=${id} text=${text} disabled=${!isChanged || problems.length > 0}
            hint=${isChanged ? "Solve the problems first" : "Change the text first"} />`
        : null}
    <//>
  `;
}

/** Somebody else has applied a version since this text was begun. */
function Outdated({ base, start, onDrop, onKeep }) {
  return html`
    <${Alert.Root} status="warning" data-testid="outdated">
      <${Alert.Indicator} />
      <${Alert.Content}>
        <${Alert.Title}>Version ${base} is active now. Your text began with version ${start.base}.<//>
        <${HStack} gap="2" mt="2" wrap="wrap">
          <${Button} size="xs" variant="outline" onClick=${onDrop}>Load version ${base}, drop my changes<//>
          <${Button} size="xs" variant="outline" onClick=${onKeep}>Keep my text, to replace version ${base}<//>
        <//>
      <//>
    <//>
  `;
}

function FileDiffers({ file, base, onLoad }) {
  return html`
    <${Alert.Root} status="warning" data-testid="file-differs">
      <${Alert.Indicator} />
      <${Alert.Content}>
        <${Alert.Title}>${file.name} differs from version ${base}, which is active<//>
        <${Alert.Description}>Airflow's runs use the file; engines, sidecars and streams use version ${base}, which is the text below.<//>
        <${HStack} mt="2"><${Button} size="xs" variant="outline" onClick=${onLoad}>Edit the file's text instead<//><//>
      <//>
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

/** What an apply did. */
function Applied({ done }) {
  return html`
    <${Done} testId="applied" title=${`Version ${done.version} is active`} warnings=${done.warnings}>
      <${Facts} pairs=${[
        ["Topics created", done.created.join(", ")],
        ["Topics grown", done.grown.join(", ")],
        ["Topics deleted", done.retired.join(", ")],
        ["Topics that stay, because they hold unread records", done.unread.join(", ")],
        ["File written", done.file],
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

/** What a check has found: problems refuse the graph, warnings do not. */
function Problems({ found, onGoTo }) {
  const { problems, warnings } = found;
  return html`
    <${Stack} gap="3">
      ${problems.length
        ? html`<${Places} title=${plural(problems.length, "problem")} places=${problems} tone="red" testId="problems" onGoTo=${onGoTo} />`
        : html`<${Alert.Root} status="success"><${Alert.Indicator} /><${Alert.Title}>No problems<//><//>`}
      ${warnings.length ? html`<${Places} title=${plural(warnings.length, "warning")} places=${warnings} tone="orange" testId="warnings" onGoTo=${onGoTo} />` : null}
    <//>
  `;
}

function Places({ title, places, tone, testId, onGoTo }) {
  return html`
    <${Box} borderWidth="1px" borderRadius="md" borderColor=${`${tone}.muted`} data-testid=${testId}>
      <${Text} px="3" py="2" fontWeight="semibold" fontSize="sm" color=${`${tone}.fg`}>${title}<//>
      <${Stack} as="ul" gap="0" listStyleType="none">
        ${places.map(
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
