// Ranges of offsets as bars: a row per topic and partition, a bar per entry of the ledger.
import { Chakra, React, html, useMemo } from "./react.js";
import { count, time } from "./format.js";

const { Box, HStack, Text } = Chakra;

const COLOURS = {
  drained: "var(--chakra-colors-green-solid)",
  recovered: "var(--chakra-colors-orange-solid)",
  backfill: "var(--chakra-colors-purple-solid)",
  other: "var(--chakra-colors-blue-solid)",
};
const ROW = 26;

/** Entries of the live lane, by topic and partition; backfills have rows of their own. */
function rowsOf(entries) {
  const rows = new Map();
  for (const each of entries) {
    const name = `${each.topic} [${each.partition}]${each.lane === each.graph_id ? "" : " · backfill"}`;
    if (!rows.has(name)) rows.set(name, []);
    rows.get(name).push(each);
  }
  return [...rows].sort(([one], [other]) => one.localeCompare(other));
}

export function Timeline({ entries, onChoose }) {
  const rows = useMemo(() => rowsOf(entries), [entries]);
  return html`
    <div>
      <${Box} overflowX="auto" borderWidth="1px" borderRadius="md" p="3" role="group" aria-label="Ranges by topic and partition" tabIndex="0">
        <${Box} display="grid" gridTemplateColumns="max-content minmax(260px, 1fr)" columnGap="3" alignItems="center">
          ${rows.map(([name, ranges]) => html`<${Row} key=${name} name=${name} ranges=${ranges} onChoose=${onChoose} />`)}
        <//>
      <//>
      <${HStack} gap="4" mt="2" fontSize="xs" color="fg.muted" wrap="wrap">
        ${Object.entries({ drained: "drained", recovered: "recovered after a crash", backfill: "backfill" }).map(
          ([kind, text]) => html`<${HStack} key=${kind} gap="1"><${Box} width="14px" height="10px" borderRadius="2px" style=${{ background: COLOURS[kind] }} /><${Text}>${text}<//><//>`,
        )}
        <${Text}>Offsets from left to right. Choose a bar for its run. A gap would be a range that nobody recorded.<//>
      <//>
    </div>
  `;
}

function Row({ name, ranges, onChoose }) {
  const low = Math.min(...ranges.map((each) => each.start));
  const high = Math.max(...ranges.map((each) => each.end), low + 1);
  const at = (offset) => ((offset - low) / (high - low)) * 1000;
  return html`
    <${React.Fragment}>
    <${Text} fontFamily="mono" fontSize="xs" whiteSpace="nowrap" title=${name}>${name}<//>
    <${Box} display="flex" alignItems="center" gap="2">
      <${Text} fontSize="2xs" color="fg.muted" className="ps-number" width="56px" textAlign="end">${count(low)}<//>
      <svg viewBox=${`0 0 1000 ${ROW}`} preserveAspectRatio="none" height=${ROW} style=${{ flex: 1, minWidth: "140px" }}>
        <rect x="0" y="6" width="1000" height=${ROW - 12} fill="var(--chakra-colors-bg-emphasized)" />
        ${ranges.map((each) => {
          const kind = each.lane === each.graph_id ? each.kind : "backfill";
          const label = `${each.kind} ${each.start} to ${each.end}, run ${each.run_id}, ${time(each.entered_at)}`;
          return html`
            <rect key=${`${each.start}-${each.end}-${each.entered_at}`} x=${at(each.start)} y="6" width=${Math.max(2, at(each.end) - at(each.start) - 1)} height=${ROW - 12} rx="1"
              fill=${COLOURS[kind] ?? COLOURS.other} role="button" tabIndex="0" aria-label=${label} style=${{ cursor: "pointer" }}
              onClick=${() => onChoose(each)} onKeyDown=${(event) => { if (event.key === "Enter") onChoose(each); }}>
              <title>${label}</title>
            </rect>
          `;
        })}
      </svg>
      <${Text} fontSize="2xs" color="fg.muted" className="ps-number" width="56px">${count(high)}<//>
    <//>
    <//>
  `;
}
