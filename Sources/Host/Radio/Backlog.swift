/// The amount of data that may wait in bluetoothd and the kernel for one link. Later data cannot overtake it.
public enum Backlog: Hashable, Sendable {
  /// Little data may wait, so that the next data, which may be urgent, is sent soon.
  case short
  /// More data may wait, so that the programs handle many values at a time, which costs less for each value.
  case long
}
