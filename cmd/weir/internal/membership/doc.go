// Package membership is the daemon's part in groups of nodes: in a cluster that shares
// limits, and among the nodes that share a rule database.
//
//   - node.go joins a cluster, follows its members, and leaves.
//   - status.go, trouble.go and flow.go tell how the cluster stands as this node knows it.
//   - remember.go keeps a list of the members in a file, by which the next process begins.
//   - leader.go tells which nodes lead a rule.
//   - sharers.go tells the other nodes of a rule database what is active here.
package membership
