/// The programs that may read an item on the bus. Methods are for the group, regardless of the audience of their
/// interface.
public enum Audience: String, Hashable, Sendable {
  /// Every program that the bus permits.
  case everybody
  /// Programs that the access rule permits: with the service's rule, root, the service's own user and its group.
  case group

  /// Whether a program of this audience may read items for `other`.
  func maySee(_ other: Audience) -> Bool {
    self == .group || other == .everybody
  }
}
