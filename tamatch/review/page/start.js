"use strict";
// The page of `tamatch start`: a label is the name of a class, data.none, or empty for a skipped
// image. The server's answer to every change has all labels, so that the page never guesses them.

const SKIPPED = "";
const POLL = 300; // milliseconds between two looks for an answer
const KEYS = "123456789abcdefghijklmnopqrstuvwxyz";
const MANY = 10; // judged images, before an accuracy is more than its interval
const ODD = 50; // per cent below which an image rather belongs to no class

let live = { version: 0, change: -1 }; // the newest answer
let polling = false;
let under; // the image under the key
const drawn = new Map(); // image that was asked for → whether by lot, when it came under the key

async function start() {
  history.replaceState(null, "", "/"); // the key in the address has done its work
  const answer = await fetch("/state");
  if (!answer.ok) throw new Error(await answer.text());
  data = await answer.json();
  takeLabels(data);
  new ResizeObserver(measure).observe($("grid"));
  measure();
  filter();
  poll();
  if (data.classes.length) $("grid").focus({ preventScroll: true });
  else $("name").focus();
}

function takeLabels(state) {
  data.classes = state.classes;
  data.change = state.change;
  undoable = state.undoable;
  labels.clear();
  for (const [image, label] of Object.entries(state.labels)) labels.set(Number(image), label);
  showClasses();
}

// ---- the answer ---------------------------------------------------------------------------

async function poll() {
  if (polling) return;
  polling = true;
  try {
    while (!broken && !(live.done && live.change >= data.change)) {
      const answer = await fetch(`/answer/${live.version}`);
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const news = await answer.json();
      if (news.version > live.version) {
        live = news;
        answered();
      }
      await new Promise((done) => setTimeout(done, POLL));
    }
  } catch (error) {
    fail(error);
    show();
  } finally {
    polling = false;
  }
}

function answered() {
  showAnswer();
  if ($("state").value === "next" || !view.length) filter();
  else show(); // no image changes its place under a key
}

function showAnswer() {
  const points = (share) => (100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0);
  const known = live.accuracy !== undefined && live.accuracy !== null;
  const first = live.guesses?.guess
    ? "Guesses for all images; no estimate of their accuracy yet."
    : "Label the first images: type what you see. Guesses come with the second class.";
  const whole = (share) => Math.round(100 * share);
  const [low, high] = (live.interval ?? []).map(whole);
  const many = live.judged >= MANY;
  const share = many ? `About ${whole(live.accuracy)} %` : `${low} to ${high} %`;
  $("accuracy").textContent = known ? `${share} of the guesses are right` : first;
  const lots = `${live.judged} image${live.judged === 1 ? "" : "s"} drawn by lot`;
  $("interval").textContent = known ? (many ? `(${low} to ${high} %, by ${lots})` : `(by ${lots})`) : "";
  const stop = known && live.gain !== null && live.gain < live.pays;
  const more = live.gain === undefined || live.gain === null ? "" : `${live.step} more labels: about +${points(Math.max(0, live.gain))} points.`;
  $("gain").textContent = stop ? `${more} More labels hardly pay: train.` : more;
  $("gain").classList.toggle("stop", stop);
  $("junk").textContent = live.junk >= 0.005 ? `About ${whole(live.junk)} % belong to none of the classes.` : "";
  if (live.trouble) $("trouble").textContent = live.trouble;
  $("trouble").hidden = !live.trouble && !broken && !refusal;
}

function guessOf(image) {
  const suspect = $("state").value === "suspects" && live.suspects?.find(([i]) => i === image);
  const c = suspect ? suspect[1] : live.guesses?.guess?.[image];
  const name = live.classes?.[c];
  if (name === undefined || !data.classes.includes(name)) return null; // renamed since
  return { name, sure: (suspect ? suspect[2] : live.guesses.sure[image]) / 100 };
}

// ---- what is shown ------------------------------------------------------------------------

function filter() {
  const before = view[cursor];
  const wanted = $("class").value;
  const { guess = [], sure = [], belongs = [] } = live.guesses ?? {};
  const all = data.files.map((_, i) => i);
  const open = all.filter((i) => !labels.has(i));
  const views = {
    next: () => {
      const asked = (live.next ?? []).filter((i) => !labels.has(i));
      const here = before !== undefined && !labels.has(before) && $("grid").dataset.view === "next";
      return here ? [before, ...asked.filter((i) => i !== before)] : asked; // it stays under the key
    },
    guesses: () => open.filter((i) => guess.length && belongs[i] >= ODD).sort((a, b) => guess[a] - guess[b] || sure[b] - sure[a] || a - b),
    odd: () => open.filter((i) => belongs[i] < ODD).sort((a, b) => belongs[a] - belongs[b] || a - b),
    suspects: () => (live.suspects ?? []).map(([i]) => i),
    same: () => [...new Set((live.same ?? []).flat())],
    labelled: () => all.filter((i) => labels.has(i) && ![SKIPPED, data.none].includes(labels.get(i))),
    none: () => all.filter((i) => labels.get(i) === data.none),
    skipped: () => all.filter((i) => labels.get(i) === SKIPPED),
    all: () => all,
  };
  view = views[$("state").value]();
  if (wanted !== "") view = view.filter((i) => (labels.get(i) || guessOf(i)?.name) === wanted);
  $("shown").textContent = `${view.length.toLocaleString("en")} shown`;
  const same = $("grid").dataset.view === $("state").value;
  $("grid").dataset.view = $("state").value;
  cursor = same ? Math.max(0, view.indexOf(before)) : 0;
  if (same) show();
  else redraw();
}

function describe(image) {
  const label = labels.get(image);
  const guess = guessOf(image);
  const state = label === undefined ? "todo" : label === SKIPPED ? "skipped" : label === data.none ? "skipped none" : "labelled";
  const said = label === undefined ? "no label" : label === SKIPPED ? "skipped" : `labelled ${label}`;
  const about = `${data.files[image]}: ${guess ? `guess ${guess.name}, ${percent(guess.sure)}; ` : ""}${said}`;
  const open = label === undefined && guess;
  if (guess && label !== undefined && $("state").value === "suspects")
    return { state: "todo", word: `${label}?`, sure: guess.name, about };
  return { state, word: open ? guess.name : label === SKIPPED ? "skipped" : (label ?? ""), sure: open ? percent(guess.sure) : "", about };
}

function showPanel() {
  const image = view[cursor];
  if (image !== under && live.next?.includes(image)) drawn.set(image, live.lots.includes(image));
  under = image;
  const none = image === undefined;
  const guess = none ? null : guessOf(image);
  $("panel").classList.toggle("none", none);
  for (const id of ["none", "skip"]) $(id).disabled = none || broken;
  $("name").disabled = broken; // it has the focus before the first image is there
  for (const id of ["confirm", "row"]) $(id).disabled = !guess || broken;
  $("undo").disabled = undoable === 0 || broken;
  $("rename").disabled = data.classes.length === 0 || broken;
  $("train").disabled = data.classes.length < 2 || broken;
  for (const button of $("classes").children) button.disabled = none || broken;
  $("confirm-text").textContent = guess ? `It is ${guess.name}` : "No guess yet";
  if (none) return showNoPhoto();
  const label = labels.get(image);
  showPhoto(image);
  $("guesses").replaceChildren(...(guess ? [guessRow(guess.name, guess.sure)] : []));
  $("decided").textContent = label === undefined ? "" : describe(image).about.split(": ").pop();
  [...$("classes").children].forEach((button, c) => {
    button.classList.toggle("guess", data.classes[c] === guess?.name);
    button.setAttribute("aria-pressed", String(data.classes[c] === label));
  });
}

function showCounts() {
  const perClass = new Map();
  for (const label of labels.values()) perClass.set(label, (perClass.get(label) ?? 0) + 1);
  const passed = perClass.get(SKIPPED) ?? 0;
  const none = perClass.get(data.none) ?? 0;
  const done = labels.size - passed - none;
  counts([["labelled", done], ...(none ? [["none of these", none]] : []), ["to do", data.files.length - labels.size]]);
  showSaved(labels.size);
  if (live.version) $("nothing").textContent = "Nothing here. Show other images above, or train on what you have.";
  $("busy").hidden = live.change >= data.change && !waiting;
  data.classes.forEach((name, c) => {
    const count = $("classes").children[c]?.querySelector(".count");
    if (count) count.textContent = String(perClass.get(name) ?? 0);
  });
}

function showClasses() {
  const wanted = $("class").value;
  const option = (name) => Object.assign(element("option", "", name), { value: name });
  $("classes").replaceChildren(
    ...data.classes.map((name, c) => {
      const button = element("button", "class");
      button.type = "button";
      const key = KEYS[c] ? element("kbd", "", KEYS[c].toUpperCase()) : element("span", "nokey");
      button.append(key, element("span", "name", name), element("span", "count"));
      button.addEventListener("click", (event) => {
        decide(name);
        if (event.detail) $("grid").focus({ preventScroll: true });
      });
      return button;
    }),
  );
  $("names").replaceChildren(...data.classes.map(option));
  $("before").replaceChildren(...data.classes.map(option));
  $("class").replaceChildren(Object.assign(element("option", "", "any class"), { value: "" }), ...data.classes.map(option));
  $("class").value = data.classes.includes(wanted) ? wanted : "";
}

// ---- what the person does -----------------------------------------------------------------

function decide(label, images = view[cursor] === undefined ? [] : [view[cursor]]) {
  if (!images.length || broken) return;
  const asked = images.length === 1 && $("state").value === "next";
  const before = images.map((image) => labels.get(image));
  for (const image of images) labels.set(image, label);
  $("said").textContent = `${images.map((image) => data.files[image]).join(", ")}: ${label || "skipped"}.`;
  const revert = () => {
    images.forEach((image, k) => restore(image, before[k]));
    if (!waiting) cursor = Math.max(0, view.indexOf(images[0])); // to be labelled otherwise
  };
  send("/label", { images, label, asked, drawn: asked && drawn.get(images[0]) }, revert, confirmed);
  advance();
}

function restore(image, label) {
  if (label === undefined) labels.delete(image);
  else labels.set(image, label);
}

function confirmed(state) {
  if (waiting) data.change = state.change; // later changes are on their way, with all labels
  else takeLabels(state);
  if (view.length) show(); // no image changes its place under a key
  else filter();
  poll();
}

function advance() {
  const open = view.map((image, at) => (labels.has(image) ? -1 : at)).filter((at) => at >= 0);
  cursor = open.find((at) => at > cursor) ?? open[0] ?? Math.min(cursor + 1, view.length - 1);
  if ($("state").value === "suspects") cursor = Math.min(cursor + 1, view.length - 1);
  show();
}

function confirmGuess() {
  const guess = view[cursor] === undefined ? null : guessOf(view[cursor]);
  if (guess) decide(guess.name);
}

function confirmRow() {
  const guess = view[cursor] === undefined ? null : guessOf(view[cursor]);
  if (!guess) return;
  const first = Math.floor(cursor / columns) * columns;
  const row = view.slice(first, first + columns);
  decide(guess.name, row.filter((image) => !labels.has(image) && guessOf(image)?.name === guess.name));
}

function undo() {
  if (!undoable || broken) return;
  send("/undo", {}, () => {}, (state) => {
    const before = new Map(labels);
    confirmed(state);
    const changed = [...before.keys()].find((image) => labels.get(image) !== before.get(image));
    $("said").textContent = "Undone.";
    if (changed === undefined) return;
    if (!view.includes(changed)) view.splice(cursor, 0, changed); // it can be labelled anew at once
    cursor = view.indexOf(changed);
    under = changed; // for the same reason as before
    show();
  });
}

function typed() {
  const name = $("name").value.trim();
  const known = data.classes.find((c) => c.toLowerCase() === name.toLowerCase());
  if (view[cursor] === undefined) return;
  if (name) decide(known ?? name);
  $("name").value = "";
  $("grid").focus({ preventScroll: true });
}

function openRenaming() {
  if (!data.classes.length || broken) return;
  const image = view[cursor];
  const name = image === undefined ? undefined : labels.get(image) || guessOf(image)?.name;
  if (data.classes.includes(name)) $("before").value = name;
  $("after").value = "";
  $("renaming").returnValue = "";
  $("renaming").showModal();
  $("after").focus();
}

function rename() {
  const [before, after] = [$("before").value, $("after").value.trim()];
  if ($("renaming").returnValue === "rename" && after) send("/rename", { before, after }, () => {}, confirmed);
  $("grid").focus({ preventScroll: true });
}

function train() {
  send("/train", {}, () => {}, () => {
    broken = ended = true; // no further label is taken
    $("trouble").classList.add("calm");
    $("trouble").textContent = "Training has begun in the terminal where tamatch start was typed; it says where the report is.";
    $("trouble").hidden = false;
    show();
  });
}

// ---- keys -----------------------------------------------------------------------------------

function turn(by) {
  const at = $("state").selectedIndex + by;
  $("state").selectedIndex = (at + $("state").length) % $("state").length;
  $("said").textContent = $("state").selectedOptions[0].textContent;
  filter();
}

const ACTIONS = {
  "/": () => $("name").focus(),
  Enter: confirmGuess,
  0: () => decide(data.none),
  " ": () => decide(SKIPPED),
  Backspace: undo,
  F2: openRenaming,
  ",": () => turn(-1),
  ".": () => turn(1),
  "?": () => $("help").showModal(),
};

function onKey(event) {
  if (!data || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const on = event.target;
  if (event.key === "Escape") return void $("grid").focus({ preventScroll: true });
  if (on.matches("input, select, textarea")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (on.matches("button, a") && (key === "Enter" || key === " ")) return; // the button itself answers
  const c = key.length === 1 ? KEYS.indexOf(key) : -1;
  if (key in MOVES) choose(cursor + MOVES[key]());
  else if (event.repeat) return; // a key held down labels one image
  else if (key === "Enter" && event.shiftKey) confirmRow();
  else if (key in ACTIONS) ACTIONS[key]();
  else if (c >= 0 && c < data.classes.length) decide(data.classes[c]);
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
for (const id of ["state", "class"]) $(id).addEventListener("change", filter);
$("name").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  typed();
});
$("renaming").addEventListener("close", rename);
$("after").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return; // the first button of the form would be pressed
  event.preventDefault();
  $("renaming").close("rename");
});
click("confirm", confirmGuess);
click("row", confirmRow);
click("none", () => decide(data.none));
click("skip", () => decide(SKIPPED));
click("undo", undo);
click("rename", openRenaming);
click("train", train);
start().catch(fail);
