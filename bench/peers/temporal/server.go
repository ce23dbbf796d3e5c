package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/tools/common/schema"
	"go.temporal.io/server/tools/sql"
	"google.golang.org/protobuf/types/known/durationpb"
)

// newServer returns a server with all four services, and the address of its frontend. Its settings
// are those of the container image's template (config_template_embedded.yaml).
func newServer() (temporal.Server, string, error) {
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "error"}))
	at, err := url.Parse(os.Getenv("DATABASE_URL"))
	if err != nil {
		return nil, "", err
	}
	name := filepath.Base(at.Path)
	store := func(database string, connections int) *config.SQL {
		password, _ := at.User.Password()
		return &config.SQL{
			PluginName: postgresql.PluginNamePGX, ConnectProtocol: "tcp", ConnectAddr: at.Host, DatabaseName: database,
			User: at.User.Username(), Password: password, MaxConns: connections, MaxIdleConns: connections, MaxConnLifetime: time.Hour,
		}
	}
	main, visibility := store(name, 20), store(name+"_visibility", 10)
	ports, first, err := fixedPorts(8)
	if err != nil {
		return nil, "", err
	}
	if first {
		if err := sql.DoCreateDatabase(store(visibility.DatabaseName, 1), name, logger); err != nil {
			return nil, "", err
		}
		if err := errors.Join(create(main, "postgresql/v12/temporal", logger), create(visibility, "postgresql/v12/visibility", logger)); err != nil {
			return nil, "", err
		}
	}
	service := func(i int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: ports[2*i], MembershipPort: ports[2*i+1], BindOnLocalHost: true}}
	}
	frontend := fmt.Sprintf("127.0.0.1:%d", ports[0])
	c := &config.Config{
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"}},
		Persistence: config.Persistence{
			DefaultStore: "default", VisibilityStore: "visibility", NumHistoryShards: 4,
			DataStores: map[string]config.DataStore{"default": {SQL: main}, "visibility": {SQL: visibility}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{"frontend": service(0), "history": service(1), "matching": service(2), "worker": service(3)},
		Archival:            config.Archival{History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"}},
		PublicClient:        config.PublicClient{HostPort: frontend},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History: config.HistoryArchivalNamespaceDefaults{State: "disabled"}, Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
	)
	return server, frontend, err
}

// create creates the tables, as temporal-sql-tool does.
func create(store *config.SQL, name string, logger log.Logger) error {
	conn, err := sql.NewConnection(store, logger)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := schema.NewSetupSchemaTask(conn, &schema.SetupConfig{InitialVersion: "0.0"}, logger).Run(); err != nil {
		return err
	}
	return schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{DBName: store.DatabaseName, SchemaName: name}, logger).Run()
}

// fixedPorts returns the ports of the first start, as a real server has fixed ones. Otherwise the
// others would look for the dead one at its old address.
func fixedPorts(n int) (ports []int, first bool, err error) {
	file := filepath.Join(os.Getenv("DATA_DIR"), "ports.json")
	if b, err := os.ReadFile(file); err == nil {
		return ports, false, json.Unmarshal(b, &ports)
	}
	// A table of the server has only room for ports below 32768.
	for port := 17233; len(ports) < n && port < 1<<15; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, true, errors.New("there are no free ports")
	}
	b, err := json.Marshal(ports)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	return ports, true, err
}

// register waits until the server takes requests, and creates the namespace.
func register(ctx context.Context, options client.Options) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	namespaces, err := client.NewNamespaceClient(options)
	if err != nil {
		return nil, err
	}
	defer namespaces.Close()
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, err
	}
	for {
		err := namespaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: options.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(72 * time.Hour)})
		var exists *serviceerror.NamespaceAlreadyExists
		if err == nil || errors.As(err, &exists) {
			// The frontend learns of a new namespace after a few seconds.
			if _, err = running(ctx, c); err == nil {
				return c, nil
			}
		}
		if ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
