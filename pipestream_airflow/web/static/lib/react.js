// React, Chakra UI and the router are Airflow's: its page puts them on globalThis before it loads this module.
import htm from "../vendor/htm.js";

export const React = globalThis.React;
export const Chakra = globalThis.ChakraUI;
export const Router = globalThis.ReactRouterDOM;

export const { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } = React;

/** JSX without a build step: html`<${Box} p=4>text<//>`. Values are escaped as React escapes them. */
export const html = htm.bind(React.createElement);
