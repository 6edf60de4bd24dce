// Elements are built here and nowhere from text: what comes from objects becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`), and children. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a part of an SVG picture. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the children of an element. */
export function put(element, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
  return element;
}

/**
 * Replaces only the children that differ, so that the focus, a selection and what a screen reader reads survive an update. A
 * replaced child that had the focus hands it to the same control of the new one.
 */
export function patch(element, children) {
  const fresh = children.filter((child) => child !== null && child !== undefined);
  while (element.children.length > fresh.length) element.lastElementChild.remove();
  fresh.forEach((child, at) => {
    const old = element.children[at];
    if (!old) element.append(child);
    else if (!old.isEqualNode(child)) exchange(old, child);
  });
  return element;
}

const CONTROLS = "a, button, input, [tabindex]";

function exchange(old, fresh) {
  const at = [...old.querySelectorAll(CONTROLS)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (at >= 0) fresh.querySelectorAll(CONTROLS)[at]?.focus({ preventScroll: true });
}

/** Sets the text only where it differs, so that an unchanged cell costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Says something to a screen reader. */
export function announce(text) {
  setText(document.getElementById("announcer"), text);
}

export const wantsNoMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
