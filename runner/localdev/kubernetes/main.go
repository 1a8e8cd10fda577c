// Command localplane is a Kubernetes control plane in one file: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl.
//
// The applet is chosen by the name the file is called by (each is a symbolic
// link to it), else by its first argument. One binary instead of six is a
// third of the size on disk, and the processes share their code in memory.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// applet runs one program with os.Args already in place, and returns its exit code.
type applet struct {
	name string
	run  func() int
}

var applets = []applet{
	{"etcd", runEtcd},
	{"kube-apiserver", runAPIServer},
	{"kube-controller-manager", runControllerManager},
	{"kube-scheduler", runScheduler},
	{"kubectl", runKubectl},
	{"kwok", runKwok},
}

func find(name string) *applet {
	for i := range applets {
		if applets[i].name == name {
			return &applets[i]
		}
	}
	return nil
}

func main() {
	chosen := find(filepath.Base(os.Args[0]))
	if chosen == nil && len(os.Args) > 1 {
		if chosen = find(os.Args[1]); chosen != nil {
			os.Args = os.Args[1:]
		}
	}
	if chosen == nil {
		names := make([]string, 0, len(applets))
		for _, a := range applets {
			names = append(names, a.name)
		}
		fmt.Fprintf(os.Stderr, "usage: localplane APPLET [flags]; applets: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(chosen.run())
}
