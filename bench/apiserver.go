package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// assetsVariable names the folder with etcd and kube-apiserver, as other projects' tests have it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// startAPIServer starts an etcd and an API server that end with ctx or with close.
func startAPIServer(ctx context.Context, assets, dir string) (_ *rest.Config, stop func(), err error) {
	var running []*process
	end := func() {
		for _, p := range slices.Backward(running) {
			p.kill()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	run := func(name string, args ...string) error {
		log, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(assets, name), args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		p, err := startProcess(cmd)
		if err := errors.Join(err, log.Close()); err != nil {
			return err
		}
		running = append(running, p)
		return nil
	}

	var ports [3]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, nil, err
		}
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peers := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if err := run("etcd", "--data-dir=etcd", "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers); err != nil {
		return nil, nil, err
	}
	key := filepath.Join(dir, "accounts.pem")
	if err := writeKey(key); err != nil {
		return nil, nil, err
	}
	token := rand.Text()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",bench,bench,system:masters\n"), 0o600); err != nil {
		return nil, nil, err
	}
	if err := run("kube-apiserver", "--etcd-servers="+etcd, "--bind-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // it refuses to advertise a loopback address, and nobody looks it up
		fmt.Sprintf("--secure-port=%d", ports[2]), "--cert-dir=certificates", "--token-auth-file="+tokens,
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://bench.local", "--service-account-key-file="+key, "--service-account-signing-key-file="+key); err != nil {
		return nil, nil, err
	}
	config := &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", ports[2]),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "certificates", "apiserver.crt")}, // it signs itself
		QPS:             -1,                                                                                // the default limit of 5 requests a second is one process's; here are many contenders in one
	}
	return config, end, answers(ctx, config, running)
}

// answers waits until the API server does.
func answers(ctx context.Context, config *rest.Config, running []*process) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		client, err := kubernetes.NewForConfig(config) // an error until there is a certificate
		if err == nil {
			err = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}
		if err == nil {
			return nil
		}
		for _, p := range running {
			select {
			case <-p.ended:
				return fmt.Errorf("%s ended at once (%v): %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, lastLine(p.cmd.Path, p.cmd.Dir))
			default:
			}
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the API server does not answer: %w", err)
		}
	}
}

func lastLine(path, dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

func freePort() (int, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}
