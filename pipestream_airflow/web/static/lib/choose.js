// Choose the pipeline that a page is about. One alone needs no choice.
import { Chakra, html } from "./react.js";
import { useQuery } from "./api.js";
import { Answer, Page, usePageState } from "./parts.js";

const { NativeSelect } = Chakra;

/** A page about one pipeline: `children(pipeline, values, set)` with the chosen one of the list. */
export function PipelinePage({ route, title, children }) {
  const [values, set] = usePageState();
  const query = useQuery("pipelines");
  const pipelines = query.data?.pipelines ?? [];
  const applied = pipelines.filter((each) => each.version !== null);
  const chosen = pipelines.find((each) => each.id === values.pipeline) ?? (values.pipeline ? null : (applied[0] ?? pipelines[0]));
  const select = html`
    <${NativeSelect.Root} size="sm" width="auto" minWidth="180px">
      <${NativeSelect.Field} aria-label="Pipeline" value=${chosen?.id ?? ""}
        onChange=${(event) => set({ ...Object.fromEntries(Object.keys(values).map((name) => [name, ""])), pipeline: event.target.value })}>
        ${pipelines.map((each) => html`<option key=${each.id} value=${each.id}>${each.title}</option>`)}
      <//>
      <${NativeSelect.Indicator} />
    <//>
  `;
  return html`
    <${Page} route=${route} title=${title} actions=${pipelines.length ? select : null}>
      <${Answer} query=${query} empty=${{
        when: () => !chosen || chosen.version === null,
        title: values.pipeline ? `The pipeline ${values.pipeline} was never applied, or you may not see it` : "No graph was applied yet",
        hint: "Apply a graph on the page Pipelines, or with pipestream graph apply.",
      }}>
        ${() => children(chosen, values, set)}
      <//>
    <//>
  `;
}
