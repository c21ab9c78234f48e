/** A node of a Vert.x cluster that a test drives. */
@ModuleGen(name = "driven", groupPackage = "driven", useFutures = true)
package driven;

import io.vertx.codegen.annotations.ModuleGen;
