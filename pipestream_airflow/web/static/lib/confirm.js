// A question before something happens.
import { Chakra, html } from "./react.js";

const { Button, Dialog, Portal } = Chakra;

/** @param isDone it has happened: only to be closed. @param isOff it cannot happen yet. */
export function Confirm({ open, title, children, verb, tone, busy, isDone = false, isOff = false, onConfirm, onCancel }) {
  return html`
    <${Dialog.Root} open=${open} role="alertdialog" lazyMount unmountOnExit onOpenChange=${(change) => { if (!change.open) onCancel(); }}>
      <${Portal}>
        <${Dialog.Backdrop} />
        <${Dialog.Positioner}>
          <${Dialog.Content} mx="3">
            <${Dialog.Header}><${Dialog.Title}>${title}<//><//>
            <${Dialog.Body}>${children}<//>
            <${Dialog.Footer}>
              <${Button} variant="outline" size="sm" onClick=${onCancel}>${isDone ? "Close" : "Cancel"}<//>
              ${isDone ? null : html`<${Button} size="sm" colorPalette=${tone ?? "brand"} loading=${busy} disabled=${isOff} onClick=${onConfirm}>${verb}<//>`}
            <//>
          <//>
        <//>
      <//>
    <//>
  `;
}
