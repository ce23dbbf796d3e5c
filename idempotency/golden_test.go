package idempotency

import (
	"strings"
	"testing"
)

// Stores keep fingerprints: what earlier versions have made must be made again.
func TestFingerprintStays(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{``, "27fa0787df4689ac6dfa1fd885f5b8f19771a3c234a00e6e4505d09e61b3fd61"},
		{` `, "46193e576cd9df6e6d7cc163ab2744d090b52e6675d08c79e8b3b67dc1663f61"},
		{`{}`, "209d50649e12decdb549bfa825d6b78bed7ad660c89d1f14a8cfd4d6048795f8"},
		{`[]`, "94364669b723db67daa12749aea0daf6f6b0058d9e73dc1b2647aa09f4af0189"},
		{`null`, "43e5b4e5c955b99f933daa09bf3ec0aa170ff5d6f74b0a5b9f9207d998f60bbc"},
		{`{"definition":"x","input":{"trip":"a-1"}}`, "9e1694328e8d2d076a42b4bb5be458c46f5ab409b04c742a067eb5d0927c2865"},
		{`{"input":{"trip":"a-1"},"definition":"x"}`, "9e1694328e8d2d076a42b4bb5be458c46f5ab409b04c742a067eb5d0927c2865"},
		{"{\"definition\": \"x\",\n\t\"input\": {\"trip\": \"a-1\"}}\r\n", "9e1694328e8d2d076a42b4bb5be458c46f5ab409b04c742a067eb5d0927c2865"},
		{`{"b":1,"a":2,"aa":3,"B":4,"":5}`, "66328af906f457cd5a822113feaa5cd3fbf86f8c4cbf557f7220186eeea30853"},
		{`{"a":1,"a":2}`, "c9a8b6eadf7f066b39857c86b0a664111c869fdefc5a6bfa8978f5b493652b63"},
		{`{"a":{"b":1},"a":{"c":2}}`, "ffdc75adfefed0fc1f0b1c621b9db548eda20f9c82105f0b60e295b74d94aa80"},
		{`[1.0,1,1e2,1E+2,-0,-0.0,9007199254740993,1e400,0.10]`, "e4fcd06448a37e64b11bd5cc08bc248df2d099c5b115f1b47ea4831ca930003b"},
		{`"<&>"`, "cd5ef903dac69b5eeeda88b12778cdc07fed55d5ac034c56f93a760e030d04b8"},
		{`"\u003c\u0026\u003e"`, "cd5ef903dac69b5eeeda88b12778cdc07fed55d5ac034c56f93a760e030d04b8"},
		{`"é"`, "9829c55af56584aac514ebdce8a24c0900c645bda8712ab191908d69ea7e1211"},
		{`"\u00e9"`, "9829c55af56584aac514ebdce8a24c0900c645bda8712ab191908d69ea7e1211"},
		{`"\ud83d\ude00"`, "5af38f6a9923aa0ad57d984f0c53b3a3335d8e138b1263377d8dd5991f23c8a1"},
		{`"\ud800"`, "515ee125b07a72ba806cdb78bc3dac3c788c5685a5d13f7f98b948be63477116"},
		{"\"\xff\"", "515ee125b07a72ba806cdb78bc3dac3c788c5685a5d13f7f98b948be63477116"},
		{`"\u2028"`, "88475caf62c02b954401915b89fac9ea6cb4db94b49e426f3862cbab3a7c9fa4"},
		{"\"\u2028\u2029\"", "66ffccb047ebded19b45de8c7e1d701a3e546052466bec14dc8b9c4e4d03a497"},
		{"\"\ufffd\"", "515ee125b07a72ba806cdb78bc3dac3c788c5685a5d13f7f98b948be63477116"},
		{`"a\/b"`, "11c971ae815c2e59b34e21be0476be649208bb6d052f82e66ebe44f4585920d2"},
		{`"a/b"`, "11c971ae815c2e59b34e21be0476be649208bb6d052f82e66ebe44f4585920d2"},
		{`"\b\f\n\r\t\"\\\u0000\u007f"`, "fc89160205fcd83624e54b76fb33ea69f6fd8d06b992267d7cf103b2e94143bb"},
		{"\"\x7f\"", "d50ac2c9aa0525a49b4086911df1d8bdd9df01c23196b491a2a3bdb03c404bcd"},
		{`"\u0001\u001F"`, "8af2ccbae29c351dfb2d5cd372edb56ab61860de81eb96eeec98705682a24395"},
		{`{"\u0061":1,"b":2}`, "9f3aba9bd5cdff4376da57633902705a69419231c4d39de30ef187982ddff322"},
		{`{"é":1,"z":2}`, "d95f6193bb056cbf511961ac8f013469fff342b97395a2104238522182d3c909"},
		{`{"<":1,"=":2}`, "2527ba677ddd96e609b15b7d65c74e0e6ed564c361ffca0745f321a36484ccb8"},
		{`{"a b":1,"a":2}`, "396217d9c459394c0fb469142615eebba4a035c8e0afd50868e0fc7bd628df51"},
		{`{"a\u0000":1,"a":2}`, "a8b7d62a3e2b9b7cf4a42da48e8757bef72a8ce1b5cbfeec52693ef87c0350f9"},
		{`{"z":[{"b":true,"a":null},{"b":false}],"a":[[],{},""]}`, "7a5ca2e0ab389266db501dd362f6aeca8676b9e665ff792ae686d45060cae4ff"},
		{`{"a":1} {}`, "af38c7b37e37740b86b2cbaf9b8a21bb912af6bb708111c3e3d8a0a86c64bcbd"},
		{`{"a":1}x`, "6e52a36137895d847bac24ff7892a85592c731f79095e205fd11d3bc3eabe4a2"},
		{`{"a":1,}`, "4c61ed7ed1551e42d1b8da5e047c96ac15e8e8d19ae470b11e7822e48272a949"},
		{`{"a":01}`, "499b4a393226b5edfd5c674165cea7c39e8484b2088d7b5d06de92dbefe70416"},
		{"saga: a\n", "566fd55894b29988ce64ce2e841410b4577fdd7f0828659555be8f31c83e206d"},
		{`true`, "e31f39153e4d4ba1b8d864ba32b6efcd316c384b8a61f846fa53a996fd17bfbc"},
		{` "x" `, "5f0679fea5f46a1a12b279b7a7aac971a678932e88b95ab4db6426b8e2f9dc15"},
		{`12`, "1b26caefc8e4c9a6186f2175ce66f5430624d9a7d80598f5766fee20538b3614"},
		{`-1.5e-3`, "3eed858c620831a9414c4a1fc2f81b6e31f646fc79db4a6cc649abee3bd0d119"},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), "228544f96a43e3e959716fcc7270e65116be9890ccdf4d684fe7035917f059d0"},
		{strings.Repeat("[", 10001) + strings.Repeat("]", 10001), "ef495c0608ec5e799f437547786e7fa8e048349a07e7e5ab9e7cbf4cde9789b4"},
	} {
		if got := Fingerprint("POST", "/v1/sagas", []byte(tt.body)); got != tt.want {
			t.Errorf("the fingerprint of %.60q was %s and is now %s", tt.body, tt.want, got)
		}
	}
}
