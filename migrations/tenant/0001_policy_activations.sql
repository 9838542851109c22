CREATE TABLE `policy_activations` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`version` integer NOT NULL,
	`at` integer NOT NULL,
	`by` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `policy_activations_version` ON `policy_activations` (`version`);--> statement-breakpoint
CREATE INDEX `policy_sets_active` ON `policy_sets` (`active`);