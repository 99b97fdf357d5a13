/// The time for which a test waits for an event. It ends a test that hangs, and does not judge speed: a machine ten
/// times slower than an ordinary one, under load, passes.
public enum Patience {
  public static let limit = Duration.seconds(120)
}
