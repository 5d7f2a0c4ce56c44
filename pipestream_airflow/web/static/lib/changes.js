// What differs between two graphs, a line each.
import { Chakra, html } from "./react.js";

const { Box, Code, Text } = Chakra;

const TONES = { "+": "ps-added", "-": "ps-removed" };

export function Changes({ changes }) {
  if (!changes.length) return html`<${Text} fontSize="sm" color="fg.muted">Nothing differs.<//>`;
  return html`
    <${Box} overflow="auto" borderWidth="1px" borderRadius="md">
      <${Code} as="pre" className="ps-diff" display="block" p="3" fontSize="xs" bg="transparent">
        ${changes.map((each, index) => html`<span key=${index} className=${TONES[each.kind]}>${each.text}</span>`)}
      <//>
    <//>
  `;
}
