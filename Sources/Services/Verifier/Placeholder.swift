// The room's files go here.
