/// The minimum and maximum numbers of links of a service, and its priority in case links are scarce.
public struct LinkShare: Hashable, Sendable {
  /// Minimum links that are available to the service while it serves or connects: other services release links for it.
  public var needs: Int
  /// Maximum links that are reserved at one time for the missing ones of `needs`: one for a service whose peers connect
  /// one after the other.
  public var spare: Int
  /// Maximum number of links that the service may have at one time.
  public var may: Int
  /// If several services exceed their minimum, the one of lowest priority releases a link first.
  public var priority: Int

  /// The share of a service that uses no LE links.
  public static let nothing = LinkShare(needs: 0, may: 0, priority: 0)

  public init(needs: Int, spare: Int = .max, may: Int, priority: Int) {
    self.needs = needs
    self.spare = spare
    self.may = may
    self.priority = priority
  }
}
