package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"recourse/saga/kinds/llm"
	"recourse/saga/kinds/mcp"
)

// mcpServer is an entry of `mcp` in the config file.
type mcpServer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// ReadMCP reads `mcp` from the config file: the MCP servers whose tools steps call. There are none
// without a file.
func ReadMCP(path string) (mcp.Config, error) {
	raw, err := section(path, "mcp")
	if err != nil || raw == nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []mcpServer
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%w %s: mcp: write a list of {name, url, headers} and {name, command, args, env}, with text as all values: %w", ErrFile, path, err)
	}
	servers := make(mcp.Config, 0, len(list))
	for _, s := range list {
		servers = append(servers, mcp.Server(s))
	}
	if err := servers.Check(); err != nil {
		return nil, fmt.Errorf("%w %s: mcp: %s", ErrFile, path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return servers, nil
}

// ReadLLM reads `llm` from the config file; the zero Config without a file.
func ReadLLM(path string) (llm.Config, error) {
	if path == "" {
		return llm.Config{}, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return llm.Config{}, fmt.Errorf("%w: %w", ErrFile, err)
	}
	c, err := readLLM(src)
	if err != nil {
		return llm.Config{}, fmt.Errorf("%w %s: llm: %w", ErrFile, path, err)
	}
	return c, nil
}
