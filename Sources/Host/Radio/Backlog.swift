/// How much of what goes over a link may wait in the system on its way, where nothing that is sent later can overtake it.
public enum Backlog: Hashable, Sendable {
  /// Little: what is sent next may be urgent.
  case short
  /// More: the programs on the way take many values at a time, which costs each value less.
  case long
}
