/// The seeds of the tests that leave things to chance. What fails says with which of them it did.
public enum Seeds {
  /// For nearly all of them.
  public static let usual: [UInt64] = [1, 2, 3, 4, 5]
  /// For those that do much with each.
  public static let few: [UInt64] = [1, 2, 3]
  /// For those that are all chance.
  public static let many: [UInt64] = Array(1...60)
}
