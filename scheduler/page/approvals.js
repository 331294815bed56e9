// What waits for a person, and the review of a plan or a revision with edits.

import { h } from "./dom.js";
import { can, get, planPath } from "./api.js";
import { actionButtons, answerQuestion, ask, because, decidePlan, reasonFlag, stepActions } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, facts, icon, isStale, issues, json, pageHead, planLink, problem, rowHead, skeleton, status, table, time } from "./parts.js";
import { duration, percent, plural, quote, words } from "./format.js";
import { editor } from "./editor.js";
import { graph, runsDown } from "./graph.js";

const KINDS = { plan: "Plan", revision: "Revision", step: "Step", answer: "Question", question: "Question" };

export function approvalsScreen() {
  return {
    title: () => "Approvals",
    view: () => {
      const inbox = app.inbox();
      if (!inbox && !can("viewer", "approver", "operator", "submitter")) return [pageHead("Approvals"), problem({ status: 403, message: "it needs the role `viewer`" })];
      const items = inbox ? inbox.items() : [];
      return [
        pageHead("Approvals", dim(isStale() ? "from before" : "live")),
        inbox && inbox.refusal() && inbox.refusal().status !== 0 ? problem(inbox.refusal(), inbox.refresh) : null,
        !inbox || !inbox.isLoaded() ? (inbox && inbox.refusal() ? null : skeleton(4)) : items.length ? h("ul", { class: "cards" }, items.map((item) => card(item, inbox.refresh))) : empty("Nothing waits for you", "Plans, revisions, steps and questions that need a person appear here, and in the number next to Approvals.", commands("goalmill submit 'Plan a 3-day trip to Paris' --require-approval", curl("POST", "/v1/goals", { description: "Plan a 3-day trip to Paris", planning: { require_approval: true } }))),
        inbox && inbox.isPartial() ? h("p", { class: "dim" }, "More plans run than are looked through here: open a plan to see what it waits for.") : null,
      ];
    },
  };
}

function card(item, then) {
  const isReview = item.kind === "plan" || item.kind === "revision";
  const target = isReview ? `#/approvals/${encodeURIComponent(item.plan)}` : planLink(item.plan, item.id && item.step ? `?step=${encodeURIComponent(item.id)}` : "");
  const actions = !can("approver") ? [] : isReview ? [decidePlan(item.plan, "approve", item.kind === "revision", then), decidePlan(item.plan, "reject", item.kind === "revision", then)]
    : item.kind === "question" ? [answerQuestion(item.plan, item.question, false, then)] : item.kind === "answer" ? [answerQuestion(item.plan, item.question, true, then)]
      : stepActions(item.plan, item.step, false, undefined, then).filter((action) => ["approve", "reject"].includes(action.key));
  return h("li", { key: item.key, class: "card-item tone-person" },
    h("div", { class: "title-line" }, h("span", { class: "status tone-person" }, icon("awaiting_approval"), h("span", null, KINDS[item.kind])), h("a", { href: target, class: "strong", dir: "auto" }, item.name), h("div", { class: "spring" }), item.due ? dim("decided without you ", time(item.due)) : dim("waits since ", time(item.since))),
    h("p", { dir: "auto" }, item.what),
    h("div", { class: "buttons" }, isReview ? h("a", { class: "button primary", href: target }, "Review and edit") : null, actionButtons(actions.map((action) => (isReview ? action : { ...action, isPrimary: !action.isDangerous })))));
}

export function approvalScreen(route) {
  const id = route.path[1];
  const mayEdit = can("approver", "operator");
  const own = { view: null, graph: null, layout: null, editor: null, refusal: null, isClosed: false };
  const load = async () => {
    try {
      const view = await get(planPath(id));
      const [document, layout] = await Promise.all([get(`${planPath(id)}/graph`), mayEdit ? null : get(`${planPath(id)}/layout`)]);
      if (own.isClosed) return;
      Object.assign(own, { view, graph: document, layout, refusal: null });
      if (mayEdit && !own.editor) own.editor = editor(document);
    } catch (refusal) { own.refusal = refusal; }
    app.render();
  };
  load();
  const done = () => { if (app.inbox()) app.inbox().refresh(); app.go(planLink(id)); };
  return {
    title: () => `Review ${own.view ? own.view.name : id}`,
    close: () => { own.isClosed = true; },
    view: () => (own.graph ? review(own, id, done) : own.refusal ? [pageHead("Review"), problem(own.refusal, load)] : [pageHead("Review"), skeleton(6)]),
  };
}

function review(own, id, done) {
  const { view, editor: edited } = own;
  const isRevision = Boolean(view.proposal);
  const isWaiting = view.status === "awaiting_approval" || isRevision;
  const isOver = Boolean(view.finished_at);
  const approve = own.graph.approve;
  const decide = can("approver") && isWaiting;
  const isChanged = Boolean(edited && edited.isChanged());
  return h("div", { class: "review" },
    h("p", { class: "crumbs" }, h("a", { href: "#/approvals" }, "Approvals"), " / ", h("a", { href: planLink(id) }, id)),
    h("div", { class: "title-line" }, h("h1", { id: "title", tabindex: "-1", dir: "auto" }, isRevision ? `Revision ${view.proposal.revision} of ${view.name}` : view.name), status(view.status)),
    h("p", { class: "goal", dir: "auto" }, view.goal.description),
    facts([["Planner", view.planner], ["Confidence", isRevision ? `${percent(view.proposal.confidence_before)} → ${percent(view.proposal.confidence_after)}` : percent(view.confidence)], ["Steps", String(view.steps.length)], isRevision ? ["Decided without you", time(view.proposal.due_at)] : approve ? ["Without a decision", `${words(approve.default || "reject")} after ${duration(approve.limit_ms ?? 86_400_000)}`] : null]),
    isRevision ? h("section", { class: "panel" }, h("h2", null, "What the revision changes"), h("p", null, h("span", { class: "tag" }, words(view.proposal.strategy)), " ", view.proposal.summary), h("ul", { class: "diff" }, view.proposal.changes.map((change) => h("li", null, change))), (view.proposal.widens || []).length ? h("div", { class: "notice warn" }, h("p", null, h("strong", null, "It may do what the plan could not do before:")), issues(view.proposal.widens)) : null) : null,
    isWaiting ? null : h("div", { class: "notice" }, h("p", null, isOver ? "The plan is over; nothing can be decided." : "Nothing waits for a decision; changes are made as an edit while the plan runs.")),
    h("section", { class: "panel" }, h("h2", null, isRevision && edited ? "Edit the plan instead" : "The plan"), edited ? edited.view() : planAsItIs(own)),
    h("div", { class: "decide", role: "group", "aria-label": "Decision" },
      decide ? [
        button({ class: "primary", disabled: isChanged && !edited.isValid(), onclick: () => ask(isChanged ? approveEdited(id, edited, isRevision, done) : decidePlan(id, "approve", isRevision, done)) }, isChanged ? (isRevision ? "Approve with changes" : `Approve with ${plural(edited.changes().length, "change")}`) : "Approve"),
        button({ class: "danger-quiet", onclick: () => ask(decidePlan(id, "reject", isRevision, done)) }, "Reject …"),
      ] : null,
      !isOver && isChanged && can("approver", "operator") && (!isWaiting || !isRevision) ? button({ disabled: !edited.isValid(), onclick: () => ask(editOnly(id, edited, done)) }, "Save the edit only") : null,
      isChanged ? button({ class: "quiet", onclick: edited.reset }, "Undo all changes") : null,
      !decide && isWaiting ? h("p", { class: "dim" }, "You can look, and not decide: that needs the role approver.") : null));
}

/** The plan for people who may not edit it. */
const planAsItIs = ({ graph: plan, layout }) => [
  graph(layout, new Map(plan.steps.map((step) => [step.id, { status: "pending", definition: step, attempts: [] }])), { id: "review", onSelect: () => {}, isDown: runsDown(layout), label: "Graph of the plan" }),
  table("Steps of the plan", ["Step", "Agent", "Action", "Waits for", "Inputs"], plan.steps.map((step) => h("tr", { key: step.id }, rowHead(step.id, h("div", { class: "dim", dir: "auto" }, step.description)), cell(step.agent_type || words(step.kind)), cell(step.action || null), cell((step.dependencies || []).join(", ") || null), cell(json(step.inputs || {}, `review-${step.id}`))))),
];

const setFlags = (changes) => changes.map((change) => (change.remove_step ? ` --remove ${change.remove_step.step}` : Object.entries(change.set_fields.fields).map(([name, value]) => (name === "dependencies" ? ` --depends ${quote(`${change.set_fields.step}=${(value || []).join(",")}`)}` : ` --set ${quote(`${change.set_fields.step}.${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)}`)).join(""))).join("");

function edit(id, edited, verb, title, text, then) {
  const changes = edited.changes();
  return {
    title, text, verb: title, then, fields: [{ name: "reason", label: "Reason", hint: "Recorded in the log" }],
    request: (values) => ({ path: `${planPath(id)}:${verb}`, body: { changes, ...because(values) } }),
    cli: (values) => `goalmill plan ${verb} ${id}${setFlags(changes)}${reasonFlag(values)}`,
  };
}

const approveEdited = (id, edited, isRevision, then) => edit(id, edited, "approve", "Approve with changes", isRevision ? "The revision is taken together with your changes." : "Your changes are made first, then the plan runs.", then);
const editOnly = (id, edited, then) => edit(id, edited, "edit", "Save the edit", "The plan is changed and still waits, or goes on.", then);
