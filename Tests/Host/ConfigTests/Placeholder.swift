// The room's tests go here.
