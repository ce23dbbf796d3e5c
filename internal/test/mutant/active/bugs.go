package active

// Bugs lists the bugs that the program was built with. The overlay of package mutant replaces this
// file.
var Bugs []Bug
