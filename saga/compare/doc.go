// Package compare says how two sagas, or two sessions of agents, differ: step by step, aligned by
// identity. It is pure: it reads journals that were read before.
//
// The steps of two sagas are the same step if they have the same path. The steps of two sessions
// are the same step if they ask for the same: the k-th call of an action with an input, or the k-th
// request to a model, is aligned with the k-th of the other session. So a call that differs in its
// input is one that only one of them has.
package compare
