/// How long a test waits for what must come. This ends a test that hangs, and judges no speed: a machine that is ten times
/// slower than an ordinary one, with other work to do, passes.
public enum Patience {
  public static let limit = Duration.seconds(120)
}
