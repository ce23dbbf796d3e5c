package config

// LocalFlags configure a node that runs in the process of a command, instead of a server.
type LocalFlags struct {
	Var         []string `sep:"none" placeholder:"NAME=TEXT" help:"A variable, in addition to RECOURSE_VAR_<name>; repeatable."`
	Vars        string   `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables."`
	Config      string   `env:"RECOURSE_CONFIG" placeholder:"FILE" help:"Config file of a server, of which only mcp and llm count here."`
	SecretDir   string   `env:"RECOURSE_SECRET_DIR" placeholder:"DIR" help:"Directory with a file for each secret, besides RECOURSE_SECRET_<NAME>."`
	EgressAllow []string `env:"RECOURSE_EGRESS_ALLOW" placeholder:"HOST|CIDR" help:"Host or network that steps may call, in addition to public addresses and this machine; repeatable."`
	TracesFlag
	DialFlags
	LLMFlags
}

// Loopback is the egress that local nodes and `demo` allow.
var Loopback = []string{"127.0.0.0/8", "::1", "localhost"}
