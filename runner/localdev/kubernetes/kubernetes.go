package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as in the stock programs
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information metric
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func runEtcd() int {
	etcdmain.Main(os.Args) // exits by itself on a failure
	return 0
}

func runAPIServer() int         { return cli.Run(apiserver.NewAPIServerCommand()) }
func runControllerManager() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }
func runScheduler() int         { return cli.Run(scheduler.NewSchedulerCommand()) }

func runKubectl() int {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints the way kubectl does, and exits
	}
	return 0
}
