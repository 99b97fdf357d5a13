/// Seeds of the randomized tests. A failure reports its seed.
public enum Seeds {
  /// The seeds that most randomized tests use.
  public static let usual: [UInt64] = [1, 2, 3, 4, 5]
  /// The seeds of tests that take long for each seed.
  public static let few: [UInt64] = [1, 2, 3]
  /// The seeds of tests whose whole content is random.
  public static let many: [UInt64] = Array(1...60)
}
