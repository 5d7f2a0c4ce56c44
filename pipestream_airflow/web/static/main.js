// What Airflow loads: it takes the component of each entry of the plugin from globalThis, by the entry's name.
import { html, useEffect, useState } from "./lib/react.js";
import { timezone } from "./lib/format.js";
import { Boundary } from "./lib/parts.js";
import { DeadLettersPage } from "./pages/dead_letters.js";
import { DocumentsPage } from "./pages/documents.js";
import { LedgerPage } from "./pages/ledger.js";
import { PipelinesPage } from "./pages/pipelines.js";
import { StatePage } from "./pages/state.js";

function addStyle(file) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(file, import.meta.url).href;
  document.head.append(link);
}

addStyle("page.css");

/** Airflow's time zone. It tells of a change by this event in the same window. */
function useTimezone() {
  const [zone, setZone] = useState(timezone);
  useEffect(() => {
    const onChange = () => setZone(timezone());
    window.addEventListener("local-storage", onChange);
    return () => window.removeEventListener("local-storage", onChange);
  }, []);
  return zone;
}

const guarded = (Component) =>
  function PipestreamPage() {
    // Another zone changes every time on the page, so the page begins anew.
    return html`<${Boundary} key=${useTimezone()} what="This page"><${Component} /><//>`;
  };

// The names must be those in registration.py, and no globals of a browser: "Document" is one.
Object.assign(globalThis, {
  Pipelines: guarded(PipelinesPage),
  "Pipeline documents": guarded(DocumentsPage),
  "Pipeline state": guarded(StatePage),
  "Pipeline ledger": guarded(LedgerPage),
  "Dead letters": guarded(DeadLettersPage),
});
