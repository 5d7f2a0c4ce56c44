// Parts that all pages share: frame, states of loading and failure, numbers, tables.
import { Chakra, React, Router, html, useEffect, useRef } from "./react.js";

const { Alert, Badge, Box, Button, Code, Flex, Heading, HStack, Skeleton, Stack, Table, Text } = Chakra;

export const PAGES = [
  { route: "pipelines", title: "Pipelines" },
  { route: "pipeline-documents", title: "Documents" },
  { route: "pipeline-state", title: "State" },
  { route: "pipeline-ledger", title: "Ledger" },
  { route: "pipeline-dead-letters", title: "Dead letters" },
];

/** A link to one of our pages, with the values of its query string. */
export function pageLink(route, values = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
  return `/plugin/${route}${query.size ? `?${query}` : ""}`;
}

/** The state of a page is in its query string: links show the same, and a reload keeps it. */
export function usePageState() {
  const [search, setSearch] = Router.useSearchParams();
  const values = Object.fromEntries(search);
  const set = (changes, { replace = false } = {}) =>
    setSearch(
      (before) => {
        const next = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes)) {
          if (value === undefined || value === null || value === "") next.delete(name);
          else next.set(name, value);
        }
        return next;
      },
      { replace },
    );
  return [values, set];
}

/** A page: its own scrolling box, the tabs of all pages, a title, and what is wrong caught inside. */
export function Page({ route, title, actions, children }) {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} · Pipestream`;
    return () => {
      document.title = before;
    };
  }, [title]);
  // On a phone the tabs are wider than the window; the one that is open should be among the visible ones.
  const current = useRef(null);
  useEffect(() => {
    current.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [route]);
  const [values] = usePageState();
  const pipeline = values.pipeline;
  return html`
    <${Box} className="pipestream" height="100%" overflowY="auto" overflowX="hidden" px=${{ base: 3, md: 5 }} py="3">
      <${Box} as="nav" aria-label="Pipestream" borderBottomWidth="1px" mb="4" overflowX="auto">
        <${HStack} gap="1" minWidth="max-content">
          ${PAGES.map(
            (page) => html`
              <${Box}
                key=${page.route}
                ref=${page.route === route ? current : undefined}
                as=${Router.Link}
                to=${pageLink(page.route, page.route === "pipelines" ? {} : { pipeline })}
                aria-current=${page.route === route ? "page" : undefined}
                px="3"
                py="2"
                fontSize="sm"
                fontWeight=${page.route === route ? "semibold" : "normal"}
                color=${page.route === route ? "fg" : "fg.muted"}
                borderBottomWidth="2px"
                borderColor=${page.route === route ? "brand.solid" : "transparent"}
                _hover=${{ color: "fg" }}
              >${page.title}<//>
            `,
          )}
        <//>
      <//>
      <${Flex} mb="4" gap="3" wrap="wrap" align="center" justify="space-between">
        <${Heading} as="h1" size="xl">${title}<//>
        ${actions ? html`<${HStack} gap="2" wrap="wrap">${actions}<//>` : null}
      <//>
      <${Boundary} what="This page">${children}<//>
    <//>
  `;
}

/** A component that throws would take Airflow's page down. */
export class Boundary extends React.Component {
  constructor(props) {
    super(props);
    this.state = { error: null };
  }

  static getDerivedStateFromError(error) {
    return { error };
  }

  render() {
    if (this.state.error === null) return this.props.children;
    return html`
      <${Failure} title=${`${this.props.what ?? "This part"} could not be shown`} error=${this.state.error}
        onRetry=${() => this.setState({ error: null })} />
    `;
  }
}

/** What an action did. Its warnings are always shown: something is not as the user wanted it. */
export function Done({ title, warnings = [], testId, children }) {
  return html`
    <${Alert.Root} status=${warnings.length ? "warning" : "success"} role="status" mt="3" data-testid=${testId}>
      <${Alert.Indicator} />
      <${Alert.Content}>
        <${Alert.Title}>${title}<//>
        ${warnings.map((each) => html`<${Alert.Description} key=${each} wordBreak="break-word">${each}<//>`)}
        ${children}
      <//>
    <//>
  `;
}

export function Failure({ title, error, onRetry, status = "error" }) {
  return html`
    <${Alert.Root} status=${status} role="alert" mb="3">
      <${Alert.Indicator} />
      <${Alert.Content}>
        ${title ? html`<${Alert.Title}>${title}<//>` : null}
        <${Alert.Description} whiteSpace="pre-wrap" wordBreak="break-word">${error?.message ?? String(error)}<//>
      <//>
      ${onRetry ? html`<${Button} size="xs" variant="outline" onClick=${onRetry}>Try again<//>` : null}
    <//>
  `;
}

/** Parts of an answer that a server did not give: the rest of the page stands. */
export function Unavailable({ parts }) {
  if (!parts?.length) return null;
  return parts.map(
    (each) => html`
      <${Failure} key=${each.part} status="warning" title=${`${NAMES[each.part] ?? each.part} does not answer`}
        error=${{ message: each.reason }} />
    `,
  );
}

const NAMES = { kafka: "Kafka", leases: "The lease store", ledger: "The ledger", database: "PostgreSQL", store: "The object store" };

export function Loading({ rows = 4, label = "Loading" }) {
  return html`
    <${Stack} role="status" aria-label=${label} gap="3">
      ${Array.from({ length: rows }, (_, index) => html`<${Skeleton} key=${index} height="6" opacity=${1 - index / (rows + 1)} />`)}
    <//>
  `;
}

export function Empty({ title, children }) {
  return html`
    <${Box} textAlign="center" py="10" px="4" borderWidth="1px" borderStyle="dashed" borderRadius="md">
      <${Text} fontWeight="semibold">${title}<//>
      ${children ? html`<${Text} as="div" color="fg.muted" fontSize="sm" mt="1">${children}<//>` : null}
    <//>
  `;
}

/** Show a query: its loading state, its failure, or what `children` makes of its data. */
export function Answer({ query, empty, children, rows }) {
  if (query.loading) return html`<${Loading} rows=${rows} />`;
  if (query.error && query.data === null) return html`<${Failure} error=${query.error} onRetry=${query.reload} />`;
  return html`
    <${React.Fragment}>
      ${query.error ? html`<${Failure} status="warning" title="Not up to date" error=${query.error} onRetry=${query.reload} />` : null}
      ${empty && empty.when(query.data) ? html`<${Empty} title=${empty.title}>${empty.hint}<//>` : children(query.data)}
    <//>
  `;
}

/** A number with its name. @param to the page that has more about it. */
export function Figure({ label, value, tone, hint, testId, to }) {
  const shown = to ? html`<${Box} as=${Router.Link} to=${to} textDecoration="underline" textUnderlineOffset="3px" aria-label=${`${label}: ${value}`}>${value}<//>` : value;
  return html`
    <${Box} minWidth="100px" title=${hint} data-testid=${testId}>
      <${Text} fontSize="xs" color="fg.muted">${label}<//>
      <${Text} as="div" fontSize="xl" fontWeight="semibold" className="ps-number" color=${tone}>${shown}<//>
    <//>
  `;
}

/** A link in a text. */
export const TextLink = ({ to, children, ...more }) =>
  html`<${Box} as=${Router.Link} to=${to} color="fg.info" textDecoration="underline" ...${more}>${children}<//>`;

export function Figures({ children }) {
  return html`<${Flex} columnGap=${{ base: 4, md: 8 }} rowGap="3" wrap="wrap" mb="4">${children}<//>`;
}

/**
 * A table that scrolls sideways in its own box: the columns that matter most come first.
 * @param columns title, cell(row), number?, width?, wrap?: true, or "narrow": only in a narrow window, for long names.
 */
export function Grid({ label, columns, rows, rowKey, onRow, selected }) {
  return html`
    <${Table.ScrollArea} borderWidth="1px" borderRadius="md" maxWidth="100%" tabIndex="0" role="region" aria-label=${label}>
      <${Table.Root} size="sm" aria-label=${label}>
        <${Table.Header}>
          <${Table.Row}>
            ${columns.map(
              (column) => html`
                <${Table.ColumnHeader} key=${column.title} textAlign=${column.number ? "end" : "start"} whiteSpace="nowrap"
                  width=${column.width}>${column.title}<//>
              `,
            )}
          <//>
        <//>
        <${Table.Body}>
          ${rows.map((row, index) => {
            const key = rowKey ? rowKey(row) : index;
            return html`
              <${Table.Row} key=${key} cursor=${onRow ? "pointer" : undefined} onClick=${onRow ? () => onRow(row) : undefined}
                bg=${selected !== undefined && selected === key ? "bg.emphasized" : undefined} _hover=${onRow ? { bg: "bg.muted" } : undefined}>
                ${columns.map(
                  (column) => html`
                    <${Table.Cell} key=${column.title} className=${column.number ? "ps-number" : undefined}
                      textAlign=${column.number ? "end" : "start"} ...${wrapping(column.wrap)}>
                      ${column.cell(row)}
                    <//>
                  `,
                )}
              <//>
            `;
          })}
        <//>
      <//>
    <//>
  `;
}

/** How the text of a cell is broken. A name can be broken anywhere, so its column needs a least width. */
function wrapping(wrap) {
  if (wrap === "narrow") return { whiteSpace: { base: "normal", lg: "nowrap" }, minWidth: { base: "144px", lg: "auto" } };
  return { whiteSpace: wrap ? "normal" : "nowrap" };
}

const TONES = {
  started: "green", applied: "green", success: "green", drained: "green", replayed: "green", production: "green",
  stopped: "gray", paused: "orange", design: "blue", mixed: "orange", "not applied": "blue",
  broken: "red", failed: "red", quarantined: "purple", recovered: "orange", dead: "red",
};

export const Tag = ({ children, tone }) =>
  html`<${Badge} colorPalette=${tone ?? TONES[children] ?? "gray"} variant="subtle">${children}<//>`;

/** Text of a document or an error: as it is, in its own scrolling box. React escapes it. */
export function Source({ text, label, maxHeight = "360px" }) {
  return html`
    <${Code} as="pre" display="block" aria-label=${label} tabIndex="0" whiteSpace="pre-wrap" wordBreak="break-word" overflow="auto"
      maxHeight=${maxHeight} p="3" fontSize="xs" borderRadius="md">${text}<//>
  `;
}

export const Mono = ({ children, ...more }) =>
  html`<${Text} as="span" fontFamily="mono" fontSize="xs" overflowWrap="anywhere" ...${more}>${children}<//>`;

export function Section({ title, children, actions, id }) {
  return html`
    <${Box} as="section" aria-label=${title} mt="5" mb="6" id=${id}>
      <${Flex} justify="space-between" align="center" mb="2" gap="2" wrap="wrap">
        <${Heading} as="h2" size="md">${title}<//>
        ${actions}
      <//>
      <${Boundary} what=${title}>${children}<//>
    <//>
  `;
}

/** Name and value pairs, aligned. */
export function Facts({ pairs }) {
  return html`
    <${Box} as="dl" display="grid" gridTemplateColumns="minmax(90px, max-content) minmax(0, 1fr)" columnGap="4" rowGap="1" fontSize="sm">
      ${pairs
        .filter((pair) => pair && pair[1] !== undefined && pair[1] !== null && pair[1] !== "")
        .map(
          ([name, value]) => html`
            <${React.Fragment} key=${name}>
              <${Text} as="dt" color="fg.muted">${name}<//>
              <${Text} as="dd" wordBreak="break-word" className="ps-number">${value}<//>
            <//>
          `,
        )}
    <//>
  `;
}
