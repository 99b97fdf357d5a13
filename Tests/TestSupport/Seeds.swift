/// Seeds of the randomized tests. A failure reports its seed.
public enum Seeds {
  /// For most tests.
  public static let usual: [UInt64] = [1, 2, 3, 4, 5]
  /// For tests that do much work per seed.
  public static let few: [UInt64] = [1, 2, 3]
  /// For tests that are random throughout.
  public static let many: [UInt64] = Array(1...60)
}
