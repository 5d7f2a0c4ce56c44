// A graph as a picture: boxes and lines where the server's layout puts them, with live numbers, zoom and pan.
import { Chakra, html, useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "./react.js";
import { duration, rate, short } from "./format.js";

const { Box, HStack, IconButton, Input } = Chakra;

const COLOURS = {
  datasource: "var(--chakra-colors-green-solid)",
  connector: "var(--chakra-colors-green-solid)",
  processor: "var(--chakra-colors-blue-solid)",
  sink: "var(--chakra-colors-gray-solid)",
  remote: "var(--chakra-colors-purple-solid)",
};
const LARGEST = 2;
const SMALLEST = 0.08;
const LOWEST = 320;
const HIGHEST = 560;
// Left free above and below the graph.
const MARGIN = 8;
// Below this scale nobody can read the boxes: then show a part of the graph at READABLE instead of all of it.
const UNREADABLE = 0.5;
const READABLE = 0.7;
// From so many boxes on, looking for one takes longer than typing its name.
const MANY = 15;

const clip = (text, letters) => (text.length <= letters ? text : `${text.slice(0, letters - 1)}…`);
// Modules differ at the end of their addresses.
const clipStart = (text, letters) => (text.length <= letters ? text : `…${text.slice(1 - letters)}`);
// What tells conditions apart comes after the common beginning.
const shortCondition = (text) => text.replaceAll("doc.search_metadata.", "").replace(/\s+/g, " ");

/** Return where a graph of a length begins so that `middle` of it is in the middle of `room`, with no room left unused. */
const centre = (middle, length, room) =>
  length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, room / 2 - middle));

/**
 * @param numbers by box key: {lag, rate, age, holders, dead, held: "stopped" or "paused"}; undefined while nothing is known
 * @param counts by edge id: {taken, refused, failed}; the last two are null for an edge without a condition
 * @param selected {kind: "node" | "edge", id}
 */
export function Picture({ layout, numbers, counts, selected, onSelect, height, label, still = false }) {
  const box = useRef(null);
  const [view, setView] = useState(null);
  const [size, setSize] = useState(null);
  const drag = useRef(null);
  const marker = useId().replaceAll(":", "");

  useLayoutEffect(() => {
    const measure = () => {
      const width = box.current.clientWidth;
      // As high as the whole graph needs at this width, within bounds.
      const whole = width / layout.width;
      const scale = still || whole >= UNREADABLE ? whole : READABLE;
      const needed = Math.min(Math.max(layout.height * scale + 2 * MARGIN, LOWEST), Math.max(HIGHEST, 0.7 * window.innerHeight));
      setSize({ width, height: height ?? Math.round(needed) });
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [layout.width, layout.height, height]);

  const fit = useCallback(() => {
    if (!size) return;
    const scale = Math.min(size.width / layout.width, size.height / layout.height, 1.15);
    setView({ scale, x: (size.width - layout.width * scale) / 2, y: (size.height - layout.height * scale) / 2 });
  }, [size?.width, size?.height, layout.width, layout.height]);

  /** Show a box large enough to read, and as near to the middle as the ends of the graph allow. */
  const goTo = useCallback((key) => {
    const found = layout.boxes.find((each) => each.key === key);
    if (!found || !size) return;
    setView((before) => {
      const scale = Math.max(before?.scale ?? READABLE, READABLE);
      return {
        scale,
        x: centre((found.x + found.width / 2) * scale, layout.width * scale, size.width),
        y: centre((found.y + found.height / 2) * scale, layout.height * scale, size.height),
      };
    });
  }, [size?.width, size?.height, layout]);

  /** Show a box that got the focus by keyboard, if it is outside of what is visible. */
  const reveal = (key) => (event) => {
    const frame = box.current.getBoundingClientRect();
    const found = event.currentTarget.getBoundingClientRect();
    const isVisible = found.left >= frame.left && found.right <= frame.right && found.top >= frame.top && found.bottom <= frame.bottom;
    if (!isVisible && event.currentTarget.matches(":focus-visible")) goTo(key);
  };

  const chosen = selected?.kind === "edge" ? layout.lines.find((line) => line.edge_id === selected.id)?.start : selected?.id;

  // A large graph, or any graph on a phone: begin at its left end, where documents come in, and let the reader move.
  useEffect(() => {
    if (!size) return;
    const scale = Math.min(size.width / layout.width, size.height / layout.height);
    if (still || scale >= UNREADABLE || !layout.boxes.length) fit();
    else if (chosen) goTo(chosen);
    else {
      const first = layout.boxes.find((each) => each.kind === "datasource") ?? layout.boxes[0];
      setView({ scale: READABLE, x: 0, y: centre((first.y + first.height / 2) * READABLE, layout.height * READABLE, size.height) });
    }
  }, [fit, goTo, still]);

  const zoom = useCallback((factor, at) => {
    setView((before) => {
      if (!before || !box.current) return before;
      const scale = Math.min(LARGEST, Math.max(SMALLEST, before.scale * factor));
      const x = at?.x ?? box.current.clientWidth / 2;
      const y = at?.y ?? box.current.clientHeight / 2;
      const ratio = scale / before.scale;
      return { scale, x: x - (x - before.x) * ratio, y: y - (y - before.y) * ratio };
    });
  }, []);

  useEffect(() => {
    if (still) return undefined;
    const onWheel = (event) => {
      // Without a modifier the wheel scrolls the page.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const corner = box.current.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - corner.left, y: event.clientY - corner.top });
    };
    const element = box.current;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [zoom, still]);

  const onPointerDown = (event) => {
    if (event.button !== 0 || still) return;
    drag.current = { x: event.clientX, y: event.clientY, view, moved: false, id: event.pointerId };
  };
  const onPointerMove = (event) => {
    const from = drag.current;
    if (!from || !from.view) return;
    const dx = event.clientX - from.x;
    const dy = event.clientY - from.y;
    if (!from.moved && Math.hypot(dx, dy) < 5) return;
    if (!from.moved) box.current.setPointerCapture(from.id);
    from.moved = true;
    setView({ ...from.view, x: from.view.x + dx, y: from.view.y + dy });
  };
  const onPointerUp = () => {
    // The click that ends a drag selects nothing.
    setTimeout(() => {
      drag.current = null;
    });
  };
  const choose = (choice) => () => {
    if (!drag.current?.moved) onSelect?.(choice);
  };

  const onKeyDown = (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else if (step) setView((before) => before && { ...before, x: before.x + step[0], y: before.y + step[1] });
    else return;
    event.preventDefault();
  };

  return html`
    <${Box} borderWidth=${still ? "0" : "1px"} borderRadius="md" overflow="hidden" bg="bg.subtle">
      ${still
        ? null
        : html`
            <${HStack} justify="end" p="1" gap="1" borderBottomWidth="1px" bg="bg.panel" role="group" aria-label="View of the graph">
              ${layout.boxes.length >= MANY && onSelect ? html`<${Find} boxes=${layout.boxes} onFind=${(key) => { goTo(key); onSelect({ kind: "node", id: key }); }} />` : null}
              <${IconButton} size="xs" variant="surface" aria-label="Zoom in" onClick=${() => zoom(1.25)}>+<//>
              <${IconButton} size="xs" variant="surface" aria-label="Zoom out" onClick=${() => zoom(0.8)}>−<//>
              <${IconButton} size="xs" variant="surface" aria-label="Show all" title="Show all" onClick=${fit}>⤢<//>
            <//>
          `}
      <${Box}
        ref=${box}
        height=${size ? `${size.height}px` : `${LOWEST}px`}
        role=${still ? "img" : "group"}
        aria-label=${label}
        aria-roledescription=${still ? undefined : "graph"}
        tabIndex=${still ? undefined : "0"}
        onKeyDown=${still ? undefined : onKeyDown}
        onPointerDown=${onPointerDown}
        onPointerMove=${onPointerMove}
        onPointerUp=${onPointerUp}
        onPointerCancel=${onPointerUp}
        cursor=${still ? "inherit" : "grab"}
        style=${{ touchAction: still ? "auto" : "pan-y" }}
      >
        ${view && size
          ? html`
              <svg width=${size.width} height=${size.height} style=${{ display: "block" }} aria-hidden=${still ? true : undefined}>
                <defs>
                  <marker id=${marker} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
                    <path d="M0 0L10 5L0 10z" fill="var(--chakra-colors-fg-subtle)" />
                  </marker>
                </defs>
                <g transform=${`translate(${view.x} ${view.y}) scale(${view.scale})`}>
                  ${layout.lines.map(
                    (line, index) => html`
                      <${Line} key=${`${line.edge_id}-${index}`} line=${line} marker=${marker} counts=${counts?.[line.edge_id]}
                        isSelected=${selected?.kind === "edge" && selected.id === line.edge_id}
                        onChoose=${line.edge_id && onSelect ? choose({ kind: "edge", id: line.edge_id }) : undefined}
                        onFocus=${reveal(line.start)} still=${still} />
                    `,
                  )}
                  ${layout.boxes.map(
                    (each) => html`
                      <${Node} key=${each.key} box=${each} numbers=${numbers?.[each.key]} still=${still}
                        isSelected=${selected?.kind === "node" && selected.id === each.key}
                        onChoose=${onSelect ? choose({ kind: "node", id: each.key }) : undefined} onFocus=${reveal(each.key)} />
                    `,
                  )}
                  ${still ? null : layout.lines.map((line, index) => html`<${Label} key=${`${line.edge_id}-${index}`} line=${line} counts=${counts?.[line.edge_id]} />`)}
                </g>
              </svg>
            `
          : null}
      <//>
    <//>
  `;
}

/** A field that finds a node by its name. */
function Find({ boxes, onFind }) {
  const list = useId();
  const [text, setText] = useState("");
  const type = (value) => {
    setText(value);
    const found = boxes.find((each) => each.key === value || each.title === value);
    if (found) onFind(found.key);
  };
  return html`
    <${Input} size="xs" width="150px" bg="bg.panel" list=${list} placeholder="Find a node" aria-label="Find a node" value=${text}
      onChange=${(event) => type(event.target.value)} onKeyDown=${(event) => event.stopPropagation()} />
    <datalist id=${list}>${boxes.map((each) => html`<option key=${each.key} value=${each.title} />`)}</datalist>
  `;
}

const onEnter = (act) => (event) => {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    event.stopPropagation();
    act();
  }
};

function Line({ line, marker, counts, isSelected, onChoose, onFocus, still }) {
  const isDead = isNeverTrue(counts);
  const dashed = line.transport === "fused" || line.transport === "engine";
  const colour = isSelected
    ? "var(--chakra-colors-brand-solid)"
    : counts?.failed
      ? "var(--chakra-colors-red-solid)"
      : "var(--chakra-colors-fg-subtle)";
  const said = [`edge ${line.edge_id}: ${line.start} to ${line.end}`, line.transport];
  if (line.condition) said.push(`if ${line.condition}`);
  if (isCounted(counts)) said.push(`true ${counts.taken}, false ${counts.refused}, failed ${counts.failed}`);
  const name = said.join(", ");
  return html`
    <g className="ps-line" role=${onChoose ? "button" : undefined} tabIndex=${onChoose ? 0 : undefined} aria-label=${onChoose ? name : undefined}
      aria-pressed=${onChoose ? isSelected : undefined} data-edge=${line.edge_id || undefined}
      onClick=${onChoose} onFocus=${onChoose ? onFocus : undefined} onKeyDown=${onChoose ? onEnter(onChoose) : undefined} style=${{ cursor: onChoose ? "pointer" : undefined }}>
      ${onChoose ? html`<path d=${line.path} fill="none" stroke="transparent" strokeWidth="16" />` : null}
      <path d=${line.path} fill="none" stroke=${colour} strokeWidth=${isSelected ? 3 : still ? 2.5 : 1.6}
        strokeDasharray=${isDead ? "2 5" : dashed ? "7 5" : undefined} opacity=${isDead ? 0.6 : 1} markerEnd=${`url(#${marker})`} />
      ${still ? null : html`<title>${name}</title>`}
    </g>
  `;
}

function Label({ line, counts }) {
  const words = [shortCondition(line.condition)];
  if (!line.condition && !["kafka", "intake", "end"].includes(line.transport)) words.push(line.transport);
  const text = clip(words.filter(Boolean).join(" "), 26);
  const numbers = countWords(counts);
  if (!text && !numbers.length) return null;
  // The two lines of a label sit above and below the edge.
  const up = text && numbers.length ? 4 : -3;
  return html`
    <g pointerEvents="none" aria-hidden="true">
      ${text ? html`<text className="ps-label" x=${line.label_x} y=${line.label_y - up} textAnchor="middle" style=${{ fontSize: "12px" }}>${text}</text>` : null}
      ${numbers.length
        ? html`
            <text className="ps-label ps-count" data-counts=${line.edge_id} x=${line.label_x} y=${line.label_y + (text ? 13 : 4)} textAnchor="middle" style=${{ fontSize: "12px" }}>
              ${numbers.map(({ text: each, className }, index) => html`<tspan key=${index} className=${className} dx=${index ? 6 : 0}>${each}</tspan>`)}
            </text>
          `
        : null}
    </g>
  `;
}

const isCounted = (counts) => counts && counts.refused !== null;
const isNeverTrue = (counts) => isCounted(counts) && counts.taken === 0 && counts.refused + counts.failed > 0;

/** What is written at an edge: how often its condition was true, false and failed, or how many documents took it. */
function countWords(counts) {
  if (!isCounted(counts)) return counts?.taken ? [{ text: short(counts.taken) }] : [];
  const words = [{ text: `✓ ${short(counts.taken)}`, className: counts.taken ? "ps-true" : "ps-warm" }, { text: `✗ ${short(counts.refused)}` }];
  if (counts.failed) words.push({ text: `! ${short(counts.failed)}`, className: "ps-dead" });
  return words;
}

function Node({ box, numbers, isSelected, onChoose, onFocus, still }) {
  const colour = COLOURS[box.kind] ?? COLOURS.processor;
  const isRound = box.kind === "datasource" || box.kind === "sink";
  const busy = numbers?.holders > 0;
  const name = [
    `${box.kind === "datasource" ? "datasource" : "node"} ${box.title}`,
    box.note,
    numbers?.lag !== undefined && numbers?.lag !== null ? `${numbers.lag} waiting` : "",
    numbers?.dead ? `${numbers.dead} dead letters` : "",
    numbers?.held,
  ].filter(Boolean);
  return html`
    <g className="ps-node" transform=${`translate(${box.x} ${box.y})`} role=${onChoose ? "button" : undefined} tabIndex=${onChoose ? 0 : undefined}
      aria-label=${onChoose ? name.join(", ") : undefined} aria-pressed=${onChoose ? isSelected : undefined} data-node=${box.key}
      onClick=${onChoose} onFocus=${onChoose ? onFocus : undefined} onKeyDown=${onChoose ? onEnter(onChoose) : undefined} style=${{ cursor: onChoose ? "pointer" : undefined }}>
      ${still ? null : html`<title>${name.join("\n")}</title>`}
      <rect className="ps-box" width=${box.width} height=${box.height} rx=${isRound ? 20 : 8} fill="var(--chakra-colors-bg-panel)"
        stroke=${isSelected ? "var(--chakra-colors-brand-solid)" : "var(--chakra-colors-border-emphasized)"} strokeWidth=${isSelected ? 3 : 1.2}
        strokeDasharray=${box.kind === "remote" ? "6 4" : undefined} />
      <rect x="0" y="14" width="4" height=${box.height - 28} rx="2" fill=${colour} />
      ${still
        ? html`<text className="ps-title" x="16" y=${box.height / 2 + 8} style=${{ fontSize: "24px" }}>${clip(box.title, 14)}</text>`
        : html`
            <text className="ps-title" x="16" y="25" style=${{ fontSize: "15px" }}>${clip(box.title, 20)}</text>
            <text className="ps-note" x="16" y="43" style=${{ fontSize: "12px" }}>${clipStart(box.note, 28)}</text>
          `}
      ${busy ? html`<circle className="ps-busy" cx=${box.width - 16} cy="20" r="4" fill="var(--chakra-colors-green-solid)" />` : null}
      ${numbers ? html`<${Numbers} numbers=${numbers} width=${box.width} />` : null}
    </g>
  `;
}

function Numbers({ numbers, width }) {
  const cells = [];
  if (numbers.lag !== undefined) cells.push({ text: `${short(numbers.lag)} waiting`, className: numbers.lag ? "ps-warm" : "ps-note", id: "lag" });
  if (numbers.lag && numbers.age) cells.push({ text: duration(numbers.age), className: "ps-warm" });
  else if (numbers.rate) cells.push({ text: rate(numbers.rate), className: "ps-note" });
  if (numbers.held) cells.push({ text: numbers.held, className: "ps-warm" });
  return html`
    <g>
      <line x1="16" x2=${width - 12} y1="53" y2="53" stroke="var(--chakra-colors-border)" />
      <text x="16" y="71" style=${{ fontSize: "12.5px" }}>
        ${cells.map((cell, index) => html`<tspan key=${index} className=${cell.className} data-number=${cell.id} dx=${index ? 8 : 0}>${cell.text}</tspan>`)}
      </text>
      ${numbers.dead
        ? html`<text className="ps-dead" x=${width - 14} y="71" textAnchor="end" style=${{ fontSize: "12.5px" }}>${short(numbers.dead)} dead</text>`
        : null}
    </g>
  `;
}
