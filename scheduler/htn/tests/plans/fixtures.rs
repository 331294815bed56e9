//! Test problem of any size with a deep decomposition: a recursive task that serves one guest after the other.

/// Guests are served one after the other, five actions each.
pub const MEALS: &str = "(define (domain meals)
  (:requirements :typing :hierarchy :negative-preconditions :method-preconditions :universal-preconditions)
  (:types guest dish bread filling tray place) (:constants kitchen - place)
  (:predicates (waits ?g - guest ?p - place) (strict ?g - guest) (pure ?b - bread) (clean ?f - filling)
    (bread_at ?b - bread) (filling_at ?f - filling) (unmade ?d - dish) (made ?d - dish) (safe ?d - dish)
    (on ?d - dish ?t - tray) (at ?t - tray ?p - place) (served ?g - guest))
  (:task serve_all :parameters ())
  (:task serve :parameters (?g - guest ?p - place))
  (:task make :parameters (?d - dish ?g - guest))
  (:method next :parameters (?g - guest ?p - place) :task (serve_all) :precondition (waits ?g ?p)
    :ordered-subtasks (and (serve ?g ?p) (serve_all)))
  (:method done :parameters () :task (serve_all)
    :precondition (forall (?g - guest) (served ?g)) :ordered-subtasks ())
  (:method bring :parameters (?g - guest ?p - place ?d - dish ?t - tray) :task (serve ?g ?p)
    :ordered-subtasks (and (make ?d ?g) (load ?d ?t) (move ?t kitchen ?p) (hand ?d ?g ?t ?p) (move ?t ?p kitchen)))
  (:method make_any :parameters (?d - dish ?g - guest ?b - bread ?f - filling) :task (make ?d ?g)
    :precondition (and (not (strict ?g)) (not (pure ?b)) (not (clean ?f)))
    :ordered-subtasks (and (make_plain ?d ?b ?f)))
  (:method make_strict :parameters (?d - dish ?g - guest ?b - bread ?f - filling) :task (make ?d ?g)
    :precondition (strict ?g) :ordered-subtasks (and (make_safe ?d ?b ?f)))
  (:action make_plain :parameters (?d - dish ?b - bread ?f - filling)
    :precondition (and (unmade ?d) (bread_at ?b) (filling_at ?f))
    :effect (and (not (unmade ?d)) (made ?d) (not (bread_at ?b)) (not (filling_at ?f))))
  (:action make_safe :parameters (?d - dish ?b - bread ?f - filling)
    :precondition (and (unmade ?d) (bread_at ?b) (pure ?b) (filling_at ?f) (clean ?f))
    :effect (and (not (unmade ?d)) (made ?d) (safe ?d) (not (bread_at ?b)) (not (filling_at ?f))))
  (:action load :parameters (?d - dish ?t - tray) :precondition (and (made ?d) (at ?t kitchen))
    :effect (and (on ?d ?t) (not (made ?d))))
  (:action move :parameters (?t - tray ?a ?b - place) :precondition (at ?t ?a)
    :effect (and (not (at ?t ?a)) (at ?t ?b)))
  (:action hand :parameters (?d - dish ?g - guest ?t - tray ?p - place)
    :precondition (and (on ?d ?t) (at ?t ?p) (waits ?g ?p) (or (safe ?d) (not (strict ?g))))
    :effect (and (not (on ?d ?t)) (not (waits ?g ?p)) (served ?g))))";

/// A problem with so many guests: five actions each.
pub fn meals(guests: usize) -> String {
    let list = |what: &str, count: usize| (0..count).map(|n| format!("{what}{n} ")).collect::<String>();
    let mut init = String::from("(at t0 kitchen) (at t1 kitchen) ");
    for n in 0..guests {
        init += &format!("(waits g{n} p{}) (unmade d{n}) (bread_at b{n}) (filling_at f{n}) ", n % 3);
        if n % 4 == 0 {
            init += &format!("(strict g{n}) (pure b{n}) (clean f{n}) ");
        }
    }
    format!(
        "(define (problem some) (:domain meals) (:objects {}- guest {}- dish {}- bread {}- filling t0 t1 - tray
         p0 p1 p2 - place) (:htn :subtasks (serve_all)) (:init {init}))",
        list("g", guests),
        list("d", guests),
        list("b", guests),
        list("f", guests),
    )
}
