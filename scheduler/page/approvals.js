// What waits for a person, and the review of a plan or a revision with edits.

import { h } from "./dom.js";
import { can, canRead, get, planPath } from "./api.js";
import { actionButtons, answerQuestion, ask, because, decidePlan, decided, reasonFlag, stepActions, withoutDecision } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, facts, forbidden, icon, issues, json, pageHead, planLink, problem, rowHead, skeleton, status, table, time, trouble, upToDate } from "./parts.js";
import { awaited, number, percent, plural, quote, words } from "./format.js";
import { countDecisions, deadline, isSoon } from "./plans.js";
import { bulkProgress } from "./bulk.js";
import { itemsCard } from "./itemcards.js";
import { editor } from "./editor.js";
import { graph, runsDown } from "./graph.js";

const KINDS = { plan: "Plan", revision: "Revision", failure: "Failed step", step: "Step", answer: "Question", question: "Question" };

/** Plans that are shown at first, and more each time; the scheduler lists no more than the last number. */
const PAGE = 25;
const PLANS_MAX = 500;

export function approvalsScreen() {
  let wanted = PAGE;
  app.inbox()?.show(wanted);
  const more = () => { wanted = Math.min(PLANS_MAX, wanted + PAGE); app.inbox()?.show(wanted); app.render(); };
  return {
    title: () => "Approvals",
    close: () => app.inbox()?.show(0),
    view: () => {
      const inbox = app.inbox();
      if (!inbox && !canRead()) return [pageHead("Approvals"), forbidden("it needs the role `viewer` or `submitter` or `approver` or `operator`")];
      const items = inbox ? inbox.items() : [];
      const further = inbox ? inbox.all() - countDecisions(items) : 0;
      const soon = items.flatMap((item) => item.members || [item]).filter((item) => isSoon(item.due)).length;
      return [
        pageHead("Approvals", upToDate()),
        items.length ? h("p", { class: "dim" }, soon ? h("strong", { class: "soon" }, `${plural(soon, "decision is", "decisions are")} due within ten minutes. `) : null, "The most urgent first.", can("approver") ? "" : " You can look, and not decide: that needs the role approver.") : null,
        bulkProgress(),
        trouble(inbox?.refusal(), inbox?.refresh),
        !inbox?.isLoaded() ? (inbox?.refusal() ? null : skeleton(4)) : items.length ? h("ul", { class: "cards" }, items.map((item) => (item.members ? itemsCard(item, inbox.refresh) : card(item, inbox.refresh)))) : inbox.all() ? null : empty("Nothing waits for you", "Plans, revisions, steps and questions that need a person appear here, and in the number next to Approvals.", commands("goalmill submit 'Plan a 3-day trip to Paris' --require-approval", curl("POST", "/v1/goals", { description: "Plan a 3-day trip to Paris", planning: { require_approval: true } }))),
        inbox?.isLoaded() && further > 0 ? h("p", { class: "dim" }, `${number(countDecisions(items))} of ${number(inbox.all())} are shown. `, inbox.plans() >= wanted && wanted < PLANS_MAX ? button({ onclick: more }, "Show more") : null) : null,
      ];
    },
  };
}

/** Steps of a plan that a card names. */
const STEPS_MAX = 50;

function card(item, then) {
  const isReview = item.kind === "plan" || item.kind === "revision";
  const target = isReview ? `#/approvals/${encodeURIComponent(item.plan)}` : planLink(item.plan, item.id && item.step ? `?step=${encodeURIComponent(item.id)}` : "");
  const actions = !can("approver") ? [] : isReview || item.kind === "failure" ? [decidePlan(item.plan, "approve", item.kind, then), decidePlan(item.plan, "reject", item.kind, then)]
    : item.kind === "question" ? [answerQuestion(item.plan, item.question, false, then)] : item.kind === "answer" ? [answerQuestion(item.plan, item.question, true, then)]
      : stepActions(item.plan, item.step, false, undefined, then).filter((action) => ["approve", "reject"].includes(action.key));
  return h("li", { key: item.key, class: `card-item tone-${isSoon(item.due) ? "bad" : "person"}` },
    h("div", { class: "title-line" }, h("span", { class: "status tone-person" }, icon("awaiting_approval"), h("span", null, KINDS[item.kind])), h("a", { href: target, class: "strong", dir: "auto" }, item.name), h("div", { class: "spring" }), deadline(item)),
    h("p", { dir: "auto" }, item.what),
    item.inputs && Object.keys(item.inputs).length ? h("details", { open: true }, h("summary", null, "Inputs of the step"), json(item.inputs, `inbox-${item.key}`)) : null,
    item.steps ? h("details", null, h("summary", null, plural(item.steps.length, "step")), h("ol", { class: "decided-steps" }, item.steps.slice(0, STEPS_MAX).map((step) => h("li", { key: step.id }, h("strong", null, step.id), " ", step.description || "", step.agent_type ? dim(` ${step.agent_type}`) : null)), item.steps.length > STEPS_MAX ? h("li", null, dim(`and ${number(item.steps.length - STEPS_MAX)} more`)) : null)) : null,
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
      if (mayEdit && !own.editor) own.editor = editor(document, `editor ${id}`);
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
  const isWaiting = Boolean(view.decision) && decided(view) !== "failure";
  const isOver = Boolean(view.finished_at);
  const decide = can("approver") && isWaiting;
  const isChanged = Boolean(edited?.isChanged());
  return h("div", { class: "review" },
    h("p", { class: "crumbs" }, h("a", { href: "#/approvals" }, "Approvals"), " / ", h("a", { href: planLink(id) }, id)),
    h("div", { class: "title-line" }, h("h1", { id: "title", tabindex: "-1", dir: "auto" }, isRevision ? `Revision ${view.proposal.revision} of ${view.name}` : view.name), status(view.status)),
    h("p", { class: "goal", dir: "auto" }, view.goal.description),
    view.planner_note ? h("div", { class: "notice warn" }, h("p", null, view.planner_note)) : null,
    (view.goal_read || []).length ? h("div", { class: "notice" }, h("p", null, h("strong", null, "Read by a model in the text of the goal: "), view.goal_read.map((place) => h("span", { key: place, class: "tag" }, place.slice(1).replaceAll("/", " ")))), json({ constraints: view.goal.constraints, success_criteria: view.goal.success_criteria, deadline_ms: view.goal.deadline_ms, inputs: view.goal.context?.inputs }, `goal-${id}`), h("p", { class: "dim" }, `To correct one: goalmill plan edit ${id} --constraint NAME=VALUE`)) : null,
    facts([["Planner", view.planner], ["Confidence", isRevision ? `${percent(view.proposal.confidence_before)} → ${percent(view.proposal.confidence_after)}` : percent(view.confidence)], ["Steps", String(view.steps.length)], view.decision ? ["Without a decision", h("span", null, withoutDecision(view.decision, decided(view)), " ", time(view.decision.due_at, "never"))] : null]),
    isRevision ? h("section", { class: "panel" }, h("h2", null, "What the revision changes"), h("p", null, h("span", { class: "tag" }, words(view.proposal.strategy)), " ", view.proposal.summary), h("ul", { class: "diff" }, view.proposal.changes.map((change) => h("li", null, change))), (view.proposal.widens || []).length ? h("div", { class: "notice warn" }, h("p", null, h("strong", null, "It may do what the plan could not do before:")), issues(view.proposal.widens)) : null) : null,
    isWaiting ? null : h("div", { class: "notice" }, h("p", null, isOver ? "The plan is over; nothing can be decided." : "Nothing waits for a decision; changes are made as an edit while the plan runs.")),
    h("section", { class: "panel" }, h("h2", null, isRevision && edited ? "Edit the plan instead" : "The plan"), edited ? edited.view() : planAsItIs(own)),
    h("div", { class: "decide", role: "group", "aria-label": "Decision" },
      decide ? [
        button({ class: "primary", disabled: isChanged && !edited.isValid(), onclick: () => ask(isChanged ? approveEdited(id, edited, isRevision, done) : decidePlan(id, "approve", decided(view), done)) }, isChanged ? (isRevision ? "Approve with changes" : `Approve with ${plural(edited.changes().length, "change")}`) : "Approve"),
        button({ class: "danger-quiet", onclick: () => ask(decidePlan(id, "reject", decided(view), done)) }, "Reject …"),
      ] : null,
      !isOver && isChanged && can("approver", "operator") && (!isWaiting || !isRevision) ? button({ disabled: !edited.isValid(), onclick: () => ask(editOnly(id, edited, done)) }, "Save the edit only") : null,
      isChanged ? button({ class: "quiet", onclick: edited.reset }, "Undo all changes") : null,
      !decide && isWaiting ? h("p", { class: "dim" }, "You can look, and not decide: that needs the role approver.") : null));
}

/** The plan for people who may not edit it. */
const planAsItIs = ({ graph: plan, layout }) => [
  graph(layout, new Map(plan.steps.map((step) => [step.id, { status: "pending", definition: step, attempts: [] }])), { id: "review", onSelect: () => {}, isDown: runsDown(layout), label: "Graph of the plan" }),
  table("Steps of the plan", ["Step", "Agent", "Action", "Waits for", "Inputs"], plan.steps.map((step) => h("tr", { key: step.id }, rowHead(step.id, h("div", { class: "dim", dir: "auto" }, step.description)), cell(step.agent_type || words(step.kind)), cell(step.action || null), cell(awaited(step).join(", ") || null), cell(json(step.inputs || {}, `review-${step.id}`))))),
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
