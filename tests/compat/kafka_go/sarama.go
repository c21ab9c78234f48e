package main

var saramaScenarios = map[string]func(*world){}
