package notify

import (
	"testing"

	"recourse/saga"
)

func TestKind(t *testing.T) {
	for eventType, want := range map[string]string{
		"recourse.inbox.approval": saga.InboxApproval, "recourse.saga.failed": Failed, "recourse.step.stalled": Stalled, "recourse.saga.cost_outlier": Outlier,
		"recourse.session.lost": Lost, "recourse.saga.in_doubt": saga.InboxInDoubt, "recourse.inbox.": "", "recourse.other.failed": "", "com.shop.failed": "", "": "",
	} {
		if got := Kind(eventType); got != want {
			t.Errorf("Kind(%q) = %q, want %q", eventType, got, want)
		}
	}
}
