/// Who may look at something on the bus. Methods are for the group, whatever the audience of their interface.
public enum Audience: String, Hashable, Sendable {
  /// Every program that the bus lets through.
  case everybody
  /// Programs that the access rule allows: with the service's rule, root, the service's own user and its group.
  case group

  /// Whether a program of this audience may see what is for `other`.
  func maySee(_ other: Audience) -> Bool {
    self == .group || other == .everybody
  }
}
